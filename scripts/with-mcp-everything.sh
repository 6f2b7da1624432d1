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

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/npm.bash
. "$here/npm.bash"

provide node nodejs || die "there is no node: put Node.js 20 or newer on PATH, or run as root on Debian, where its package is installed"

if [ -z "${KEEL_TEST_MCP_EVERYTHING:-}" ]; then
	target=${here%/*}/.cache/mcp-everything-$version
	KEEL_TEST_MCP_EVERYTHING=$target/node_modules/$package/dist/index.js
	if [ ! -f "$KEEL_TEST_MCP_EVERYTHING" ]; then
		provide npm npm || die "there is no npm on PATH to install $package@$version with; or set KEEL_TEST_MCP_EVERYTHING to its dist/index.js"
		install_once "$target" npm install --prefix . --no-audit --no-fund --no-save --ignore-scripts --loglevel=error "$package@$version" ||
			die "npm could not install $package@$version; see its message above. Or set KEEL_TEST_MCP_EVERYTHING to the dist/index.js of one"
	fi
fi
[ -f "$KEEL_TEST_MCP_EVERYTHING" ] || die "KEEL_TEST_MCP_EVERYTHING=$KEEL_TEST_MCP_EVERYTHING is no file"
export KEEL_TEST_MCP_EVERYTHING
exec "$@"
