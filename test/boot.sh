#!/bin/bash
# Boots a clean Debian with systemd in a container, installs the package there, and does to the service what happens to
# one: a wrong configuration, an occupied port, kill -9, a process that hangs, a reload without procps, a reboot.
#
# It needs root, debootstrap and systemd-nspawn, which it installs where it may. With -try it says why a container
# cannot be booted, and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."

try=
case ${1:-} in
-try) try=yes ;;
'') ;;
*)
	echo "usage: test/boot.sh [-try]" >&2
	exit 64
	;;
esac
out=$PWD/.cache/boot-test
root=$(mktemp -d)
messages=100

fail() {
	echo "boot: $*" >&2
	[[ ! $init ]] || inside journalctl -u brokerd -n 40 --no-pager >&2 || true
	exit 1
}
skip() {
	[[ $try ]] || fail "$*"
	echo "boot: skipped: $*"
	exit 0
}
say() { printf -- '--- %s\n' "$*"; }

nspawn= init= # the container, and the first process in it
cleanup() {
	if [[ $nspawn ]]; then
		kill -TERM "$nspawn" 2>/dev/null || true # it ends the container at once
		for _ in {1..50}; do kill -0 "$nspawn" 2>/dev/null && sleep 0.1 || break; done
		kill -9 "$nspawn" 2>/dev/null || true
	fi
	rm -rf --one-file-system "$root"
}
trap cleanup EXIT

inside() { nsenter -t "$init" -m -u -i -n -p -- "$@"; }
property() { inside systemctl show -P "$1" brokerd; }
ctl() { inside /usr/bin/brokerctl "$@"; }
expect() { # WHAT GOT WANT
	[[ $2 == "$3" ]] || fail "$1: $2, want $3"
}
# until waits for up to a minute for a command to succeed.
until_true() { # WHAT COMMAND...
	local what=$1
	shift
	for _ in {1..300}; do
		"$@" >/dev/null 2>&1 && return
		sleep 0.2
	done
	fail "not within a minute: $what"
}
is() { [[ $(property "$1") == "$2" ]]; }                # PROPERTY VALUE
reached() { (($(property NRestarts) >= $1)); }          # RESTARTS
started_since() { ! is MainPID "$1" && is SubState running; } # PID
booted() {
	init=$(pgrep -P "$nspawn" | head -n 1) && [[ $init ]] && inside systemctl is-system-running | grep -qE 'running|degraded'
}

boot() {
	# Its own network, so that the usual ports are free. It keeps the scope that it is started in, and is registered
	# nowhere: so it runs in a container, too.
	systemd-nspawn -q -D "$root" --keep-unit --register=no --private-network --console=pipe -b </dev/null >"$out/console.log" 2>&1 &
	nspawn=$!
	for _ in {1..150}; do
		kill -0 "$nspawn" 2>/dev/null || { nspawn= && return 1; }
		booted 2>/dev/null && return
		sleep 0.2
	done
	return 1
}

mkdir -p "$out"
[[ $(id -u) == 0 ]] && command -v dpkg >/dev/null || skip 'only root on Debian or Ubuntu can boot a container with the package'
missing=()
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
if [[ ${missing[*]} ]]; then
	{ timeout 120 apt-get update -q && timeout 180 apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$out/apt.log" 2>&1 ||
		skip "cannot install ${missing[*]}: $(tail -n 1 "$out/apt.log")"
fi

say 'a clean Debian with systemd'
if [[ ! -s $out/debian.tar ]]; then # kept for the next run
	timeout 400 debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$root" >"$out/debootstrap.log" 2>&1 ||
		skip "debootstrap fails: $(tail -n 1 "$out/debootstrap.log")"
	tar -cf "$out/debian.tar.part" -C "$root" . && mv "$out/debian.tar.part" "$out/debian.tar"
else
	tar -xf "$out/debian.tar" -C "$root"
fi
chmod 755 "$root"
boot || skip "systemd-nspawn does not boot it: $(tail -n 1 "$out/console.log")"

say 'install, enable, publish'
make --no-print-directory dist "DIST=$out/dist" VERSION=0.1.0 "PLATFORMS=linux/$(go env GOARCH)" >"$out/make.log" 2>&1 ||
	fail "make dist: $(tail -n 20 "$out/make.log")"
cp "$out"/dist/*.deb "$root/opt/"
inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /opt/*.deb' >"$out/dpkg.log" 2>&1 || fail "dpkg: $(cat "$out/dpkg.log")"
inside systemctl enable --now brokerd >"$out/enable.log" 2>&1 || fail "systemctl enable --now: $(cat "$out/enable.log")"
expect 'after systemctl start' "$(property ActiveState)" active
ctl topic create parcels >/dev/null
seq $messages | ctl message pub parcels -f - >/dev/null
stored() { ctl topic describe parcels -o json | sed -n 's/.*"committed_end":\([0-9]*\).*/\1/p'; }
expect 'messages published' "$(stored)" $messages
inside journalctl -u brokerd --no-pager | grep -iE 'unknown key|is different|failed to|deprecated' && fail 'systemd complains of the unit'

say 'reload without procps'
[[ ! -e $root/bin/kill && ! -e $root/usr/bin/kill ]] || fail 'this Debian has a program kill: the test shows nothing'
config=$root/etc/brokerd/brokerd.toml
cp -p "$config" "$out/brokerd.toml"
was=$(property MainPID)
printf '\nlog_level = "debug"\n' >>"$config"
inside systemctl reload brokerd || fail 'systemctl reload'
until_true 'the reload is in the log' inside sh -c 'journalctl -u brokerd --no-pager | grep -q "configuration reloaded.*log"'
expect 'the process after a reload' "$(property MainPID)" "$was"

say 'a wrong configuration stops it, with 78 and no second try, and a right one starts it'
printf '\nno_such_setting = 1\n' >>"$config"
! inside systemctl restart brokerd >/dev/null 2>&1 || fail 'it starts with a wrong configuration'
sleep 5 # two tries, if there were any
expect 'with a wrong configuration' "$(property ActiveState) $(property ExecMainStatus) $(property NRestarts)" 'failed 78 0'
cp -p "$out/brokerd.toml" "$config"
inside systemctl start brokerd || fail 'it does not start after the configuration was mended'
expect 'messages after the mended configuration' "$(stored)" $messages

say 'an occupied port does not make it give up'
mkdir -p "$root/etc/systemd/system/brokerd.service.d"
printf '[Service]\nRestartSec=100ms\nWatchdogSec=3\n' >"$root/etc/systemd/system/brokerd.service.d/test.conf"
inside systemctl daemon-reload
inside systemctl stop brokerd
inside systemd-run -q --unit=occupies systemd-socket-activate -l 127.0.0.1:4150 /bin/true
until_true 'the port is occupied' inside systemctl -q is-active occupies
inside systemctl start --no-block brokerd
until_true 'it is tried 30 times' reached 30
inside systemctl stop occupies
until_true 'it runs once the port is free' is ActiveState active
inside systemctl restart brokerd || fail 'systemctl restart is refused after many failures'

say 'kill -9, and a process that hangs'
was=$(property MainPID)
inside sh -c "kill -9 $was"
until_true 'it runs again' started_since "$was"
was=$(property MainPID)
inside sh -c "kill -STOP $was"
until_true 'the watchdog replaces it' started_since "$was"
until_true 'it is healthy' ctl cluster health -q
expect 'messages after the kills' "$(stored)" $messages

say 'the machine stops, and boots again'
inside systemctl poweroff >/dev/null 2>&1 || true
wait "$nspawn" || fail "the container ends with $?"
init=
boot || fail "it does not boot again: $(tail -n 3 "$out/console.log")"
until_true 'the service runs after a boot' is ActiveState active
inside journalctl -b -1 -u brokerd --no-pager 2>/dev/null | grep -qi 'sigkill' && fail 'it was killed when the machine stopped'
expect 'messages after a boot' "$(stored)" $messages

say 'remove'
inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -r brokerd' >"$out/dpkg.log" 2>&1 || fail "dpkg -r: $(cat "$out/dpkg.log")"
! inside systemctl -q is-active brokerd || fail 'it runs after the removal'
rm -rf "$out/dist"
say "passed in $SECONDS s"
