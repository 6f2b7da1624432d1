#!/usr/bin/env bash
# shellcheck disable=SC2317 # the functions that only traps call look unreachable
# Runs a command with a Postgres to test against, and passes its exit code on.
#
#   scripts/with-postgres.sh COMMAND [ARGUMENT...]
#
# The server is, in this order:
#   1. the one that KEEL_TEST_POSTGRES_URL names, if it is set;
#   2. a throw-away cluster made from this machine's own server binaries;
#   3. the same after installing Debian's package, when root and apt-get exist.
# It never carries on without one: tests that need Postgres fail, they do not skip.
#
# The command sees
#   KEEL_TEST_POSTGRES_URL   a superuser's connection URL
#   KEEL_TEST_POSTGRES_BIN   the directory of initdb, pg_ctl and postgres (may be empty in case 1); set it
#                            beforehand to choose another version of the server
#   KEEL_TEST_POSTGRES_USER  the operating system's user to run a server as; it differs from the present
#                            user when that is root, whom Postgres refuses
# The throw-away cluster keeps the durable defaults (fsync, full_page_writes, synchronous_commit): Keel refuses
# a server without them. It is stopped and deleted however the command ends.
set -euo pipefail

say() { printf 'with-postgres: %s\n' "$*" >&2; }

die() {
	say "$@"
	exit 1
}

[ $# -gt 0 ] || {
	say "usage: scripts/with-postgres.sh COMMAND [ARGUMENT...]"
	exit 2
}

is_root() { [ "$(id -u)" -eq 0 ]; }

has_server() { [ -x "$1/initdb" ] && [ -x "$1/pg_ctl" ] && [ -x "$1/postgres" ]; }

# Prints the directory of the server binaries, the newest version first; fails when there are none.
find_server() {
	local dir initdb
	while read -r dir; do
		if has_server "$dir"; then
			printf '%s\n' "$dir"
			return 0
		fi
	done < <(
		printf '%s\n' /usr/lib/postgresql/*/bin | sort -t/ -k5,5nr
		printf '%s\n' /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin /usr/local/pgsql/bin | sort -r
	)
	# Last, since what is on PATH may be a wrapper around one of the above.
	if initdb=$(command -v initdb); then
		dir=$(dirname "$(readlink -f "$initdb")")
		if has_server "$dir"; then
			printf '%s\n' "$dir"
			return 0
		fi
	fi
	return 1
}

# Prints the user to run a server as; fails when root finds nobody to hand it to.
find_user() {
	local user
	if ! is_root; then
		id -un
		return 0
	fi
	for user in postgres keel-postgres nobody; do
		if id -u "$user" >/dev/null 2>&1; then
			printf '%s\n' "$user"
			return 0
		fi
	done
	return 1
}

as_server_user() {
	if ! is_root; then
		"$@"
	elif command -v setpriv >/dev/null; then
		setpriv --reuid="$KEEL_TEST_POSTGRES_USER" --regid="$(id -g "$KEEL_TEST_POSTGRES_USER")" --init-groups -- "$@"
	else
		runuser -u "$KEEL_TEST_POSTGRES_USER" -- "$@"
	fi
}

install_server() {
	say "no Postgres server found; installing Debian's package"
	(
		# Two of these scripts may have started together: the second waits, then finds the server there.
		if command -v flock >/dev/null; then flock 9; fi
		if find_server >/dev/null; then exit 0; fi
		export DEBIAN_FRONTEND=noninteractive
		apt-get -o DPkg::Lock::Timeout=300 update &&
			apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends postgresql
	) 9>"${TMPDIR:-/tmp}/with-postgres.apt.lock" </dev/null >&2 || return 1
}

cluster=
child=

stop_cluster() {
	local pid
	[ -n "$cluster" ] || return 0
	if [ -f "$cluster/data/postmaster.pid" ]; then
		pid=$(head -n 1 "$cluster/data/postmaster.pid")
		as_server_user "$KEEL_TEST_POSTGRES_BIN/pg_ctl" stop -s -w -t 30 -m immediate -D "$cluster/data" >&2 ||
			kill -KILL "$pid" 2>/dev/null || true
	fi
	rm -rf "$cluster"
}

on_exit() {
	local code=$?
	trap - EXIT
	trap '' INT TERM HUP
	cd /
	stop_cluster
	exit "$code"
}

# on_signal NAME EXITCODE: passes the signal on to the command's process group and gives it ten seconds to go.
on_signal() {
	trap '' INT TERM HUP
	if [ -n "$child" ]; then
		kill -s "$1" -- "-$child" 2>/dev/null || true
		local tenths=0
		while kill -0 -- "-$child" 2>/dev/null && [ "$tenths" -lt 100 ]; do
			sleep 0.1
			tenths=$((tenths + 1))
		done
		kill -KILL -- "-$child" 2>/dev/null || true
	fi
	exit "$2"
}

start_cluster() {
	local tmp port tries=0
	tmp=${TMPDIR:-/tmp}
	as_server_user test -x "$tmp" || tmp=/tmp
	cluster=$(mktemp -d "$tmp/keel-postgres.XXXXXXXX")
	if is_root; then chown "$KEEL_TEST_POSTGRES_USER" "$cluster"; fi
	cd "$cluster"

	# --no-sync concerns initdb's own writes alone; the server keeps fsync on.
	as_server_user "$KEEL_TEST_POSTGRES_BIN/initdb" -D "$cluster/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
		>"$cluster/initdb.log" 2>&1 || {
		cat "$cluster/initdb.log" >&2
		die "initdb failed"
	}
	cat >>"$cluster/data/postgresql.conf" <<-'CONF'
		listen_addresses = '127.0.0.1'
		unix_socket_directories = ''
		max_connections = 300
	CONF

	# The kernel arbitrates: a port that somebody else took in the meantime makes the start fail, and another is tried.
	# The range lies below the ports that outgoing connections use.
	while :; do
		port=$((20000 + RANDOM % 12000))
		: >"$cluster/server.log"
		if is_root; then chown "$KEEL_TEST_POSTGRES_USER" "$cluster/server.log"; fi
		if as_server_user "$KEEL_TEST_POSTGRES_BIN/pg_ctl" start -s -w -t 60 -D "$cluster/data" -l "$cluster/server.log" -o "-p $port" \
			>"$cluster/pg_ctl.log" 2>&1; then
			break
		fi
		tries=$((tries + 1))
		if [ "$tries" -ge 20 ] || ! grep -q 'Address already in use' "$cluster/server.log"; then
			cat "$cluster/pg_ctl.log" "$cluster/server.log" >&2
			die "the Postgres server did not start"
		fi
	done
	export KEEL_TEST_POSTGRES_URL="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
}

if [ -n "${KEEL_TEST_POSTGRES_BIN:-}" ]; then
	has_server "$KEEL_TEST_POSTGRES_BIN" || die "KEEL_TEST_POSTGRES_BIN=$KEEL_TEST_POSTGRES_BIN lacks initdb, pg_ctl or postgres"
else
	KEEL_TEST_POSTGRES_BIN=$(find_server) || KEEL_TEST_POSTGRES_BIN=
fi
KEEL_TEST_POSTGRES_USER=${KEEL_TEST_POSTGRES_USER:-$(find_user || true)}
export KEEL_TEST_POSTGRES_BIN KEEL_TEST_POSTGRES_USER

if [ -n "${KEEL_TEST_POSTGRES_URL:-}" ]; then
	say "using KEEL_TEST_POSTGRES_URL"
	exec "$@"
fi

if [ -z "$KEEL_TEST_POSTGRES_BIN" ] && is_root && command -v apt-get >/dev/null; then
	install_server || say "apt-get could not install postgresql"
	KEEL_TEST_POSTGRES_BIN=$(find_server) || KEEL_TEST_POSTGRES_BIN=
	KEEL_TEST_POSTGRES_USER=$(find_user || true)
fi
[ -n "$KEEL_TEST_POSTGRES_BIN" ] || die "no Postgres to test against. Any one of these helps:
  1. set KEEL_TEST_POSTGRES_URL to a superuser's URL of a running server (UTF8, with fsync on);
  2. install the server binaries (initdb, pg_ctl, postgres) on PATH or under /usr/lib/postgresql;
  3. run as root on Debian or Ubuntu, where this script installs the package postgresql itself."
if [ -z "$KEEL_TEST_POSTGRES_USER" ]; then
	useradd --system --no-create-home --shell /usr/sbin/nologin keel-postgres
	KEEL_TEST_POSTGRES_USER=keel-postgres
fi

trap on_exit EXIT
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM
trap 'on_signal HUP 129' HUP

back=$PWD
start_cluster
cd "$back"
say "$("$KEEL_TEST_POSTGRES_BIN/postgres" --version) ready, run as $KEEL_TEST_POSTGRES_USER: $KEEL_TEST_POSTGRES_URL"

code=0
if [ -t 0 ]; then
	# At a terminal the command stays in the foreground, so that it may read it; Ctrl-C reaches it directly.
	"$@" || code=$?
else
	# A process group of its own lets a signal to this script reach everything the command started.
	set -m
	"$@" &
	child=$!
	set +m
	wait "$child" || code=$?
	child=
fi
exit "$code"
