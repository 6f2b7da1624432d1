#!/usr/bin/env bash
# Runs a command with the peers of the benchmarks at hand that npm brings, and passes its exit code on.
#
#   scripts/with-bench-peers.sh COMMAND [ARGUMENT...]
#
# The command sees in KEEL_BENCH_PEERS the directory whose node_modules has them. It is, in this order:
#   1. what KEEL_BENCH_PEERS names, if it is set;
#   2. one under .cache, where npm installs what bench/peers/package-lock.json pins and holds the checksums of.
# npm is the one on PATH, else Debian's package, installed when root and apt-get exist. Where they cannot be installed the
# command runs without them, and the benchmarks say so.
set -euo pipefail

say() { printf 'with-bench-peers: %s\n' "$*" >&2; }

[ $# -gt 0 ] || {
	say "usage: scripts/with-bench-peers.sh COMMAND [ARGUMENT...]"
	exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/npm.bash
. "$here/npm.bash"

pins=${here%/*}/bench/peers

# install_pinned installs into the present directory.
install_pinned() {
	cp "$pins/package.json" "$pins/package-lock.json" . &&
		npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
}

if [ -z "${KEEL_BENCH_PEERS:-}" ]; then
	read -r sum _ < <(cksum "$pins/package-lock.json")
	target=${here%/*}/.cache/bench-peers-$sum
	if [ -d "$target" ] || { provide npm npm && install_once "$target" install_pinned; }; then
		export KEEL_BENCH_PEERS=$target
	else
		say "npm could not install them: the benchmarks go without"
	fi
fi
exec "$@"
