#!/usr/bin/env bash
# Runs a command that needs a program besides Go, and passes its exit code on.
#
#   scripts/with-program.sh PROGRAM COMMAND [ARGUMENT...]
#
# PROGRAM (nginx, pgbouncer) is, in this order:
#   1. what KEEL_TEST_PROGRAM names, the name in capitals, as in KEEL_TEST_NGINX=/opt/nginx/sbin/nginx;
#   2. the one on PATH or in a usual directory beside it;
#   3. the one of Debian's package of that name, installed when root and apt-get exist.
# The command sees its path in that variable. Without the program nothing runs.
set -euo pipefail

say() { printf 'with-program: %s\n' "$*" >&2; }

[ $# -ge 2 ] || {
	say "usage: scripts/with-program.sh PROGRAM COMMAND [ARGUMENT...]"
	exit 2
}
program=$1
variable=KEEL_TEST_${program^^}
shift

find_program() { PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/opt/homebrew/bin command -v "$program"; }

install_program() {
	say "no $program found; installing Debian's package"
	(
		if command -v flock >/dev/null; then flock 9; fi
		export DEBIAN_FRONTEND=noninteractive
		apt-get -o DPkg::Lock::Timeout=300 update &&
			apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$program"
	) 9>"${TMPDIR:-/tmp}/with-program.apt.lock" </dev/null >&2 || say "apt-get could not install $program"
}

path=${!variable:-}
if [ -z "$path" ] && ! path=$(find_program); then
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then install_program; fi
	path=$(find_program) || {
		say "there is no $program: put it on PATH, set $variable to its path, or run as root on Debian, where its package is installed"
		exit 1
	}
fi
[ -x "$path" ] || {
	say "$variable=$path is not a program"
	exit 1
}
export "$variable=$path"
exec "$@"
