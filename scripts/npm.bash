# shellcheck shell=bash
# For scripts that need packages from npm; they source it. Their say() tells how far they are.

# provide PROGRAM PACKAGE: installs Debian's package when the program is missing and that is possible.
provide() {
	command -v "$1" >/dev/null && return
	[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
	say "no $1 found; installing Debian's package"
	(
		if command -v flock >/dev/null; then flock 9; fi
		export DEBIAN_FRONTEND=noninteractive
		apt-get -o DPkg::Lock::Timeout=300 update &&
			apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$2"
	) 9>"${TMPDIR:-/tmp}/with-program.apt.lock" </dev/null >&2 && command -v "$1" >/dev/null
}

# install_once TARGET COMMAND [ARGUMENT...]: runs COMMAND in a fresh directory, which then becomes TARGET.
# Another run may install at the same time: each into a directory of its own, and the first to be ready gives its one.
install_once() {
	local target=$1 fresh failed=
	shift
	mkdir -p "$(dirname "$target")"
	fresh=$(mktemp -d "$target.XXXXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	say "installing ${target##*/}, once"
	if (cd "$fresh" && "$@") </dev/null >&2; then
		chmod 755 "$fresh"
		mv -T "$fresh" "$target" 2>/dev/null || [ -d "$target" ] || mv "$fresh" "$target"
	else
		failed=1
	fi
	rm -rf "$fresh"
	trap - EXIT
	[ -z "$failed" ]
}
