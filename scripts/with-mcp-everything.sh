#!/usr/bin/env bash
# Runs a command with the MCP project's own test server at hand, and passes its exit code on.
#
#   scripts/with-mcp-everything.sh COMMAND [ARGUMENT...]
#
# The command sees in KEEL_TEST_MCP_EVERYTHING the JavaScript file that node runs. It is, in this order:
#   1. what KEEL_TEST_MCP_EVERYTHING names, if it is set;
#   2. the package of the pinned version under .cache, installed there by npm when it is missing.
# Node.js and npm are those on PATH, else Debian's packages, installed when root and apt-get exist. Without node, or
# without npm or its registry at the first time, nothing runs.
set -euo pipefail

package=@modelcontextprotocol/server-everything
version=2026.8.31

say() { printf 'with-mcp-everything: %s\n' "$*" >&2; }

die() {
	say "$@"
	exit 1
}

[ $# -gt 0 ] || {
	say "usage: scripts/with-mcp-everything.sh COMMAND [ARGUMENT...]"
	exit 2
}

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

provide node nodejs || die "there is no node: put Node.js 20 or newer on PATH, or run as root on Debian, where its package is installed"

# Another run may install at the same time: each into a directory of its own, and the first to be ready gives its one.
install_package() {
	local target=$1 fresh
	provide npm npm || die "there is no npm on PATH to install $package@$version with; or set KEEL_TEST_MCP_EVERYTHING to its dist/index.js"
	mkdir -p "$(dirname "$target")"
	fresh=$(mktemp -d "$target.XXXXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	say "installing $package@$version into $target, once"
	npm install --prefix "$fresh" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "$package@$version" </dev/null >&2 ||
		die "npm could not install $package@$version; see its message above. Or set KEEL_TEST_MCP_EVERYTHING to the dist/index.js of one"
	chmod 755 "$fresh"
	mv -T "$fresh" "$target" 2>/dev/null || [ -d "$target" ] || mv "$fresh" "$target"
	rm -rf "$fresh"
	trap - EXIT
}

if [ -z "${KEEL_TEST_MCP_EVERYTHING:-}" ]; then
	target=$(cd "$(dirname "$0")/.." && pwd)/.cache/mcp-everything-$version
	KEEL_TEST_MCP_EVERYTHING=$target/node_modules/$package/dist/index.js
	[ -f "$KEEL_TEST_MCP_EVERYTHING" ] || install_package "$target"
fi
[ -f "$KEEL_TEST_MCP_EVERYTHING" ] || die "KEEL_TEST_MCP_EVERYTHING=$KEEL_TEST_MCP_EVERYTHING is no file"
export KEEL_TEST_MCP_EVERYTHING
exec "$@"
