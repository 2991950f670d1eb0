#!/bin/bash
# Builds packages of two versions and does with them what an operator does: install,
# first start, publish, upgrade beside the running node, backup and restore, removal, purge, return.
#
# In full it makes a clean Debian with debootstrap, has lintian read the package, and
# runs everything in there as the service's user. With -short it installs below a
# directory of this machine, which needs dpkg alone. With -try it runs in full, or, where no
# clean Debian can be made, says why and runs as with -short.
set -euo pipefail
cd "$(dirname "$0")/.."

short= try=
case ${1:-} in
-short) short=yes ;;
-try) try=yes ;;
'') ;;
*)
	echo "usage: test/dist.sh [-short|-try]" >&2
	exit 64
	;;
esac
out=$PWD/.cache/dist-test
root=$(mktemp -d) # not below the repository, which the service's user may not reach
base=${DIST_PORT:-25150} # and the three after it; below those that the kernel gives to clients
messages=100

fail() {
	echo "dist: $*" >&2
	exit 1
}
say() { printf -- '--- %s\n' "$*"; }

if [[ $(id -u) != 0 ]] || ! command -v dpkg >/dev/null; then
	[[ $short$try ]] || fail 'only root on Debian or Ubuntu can install packages'
	echo 'dist: skipped: only root on Debian or Ubuntu can install packages'
	exit 0
fi

node= # process that is to be stopped at the end
cleanup() {
	[[ -z $node ]] || kill -9 "$node" 2>/dev/null || true
	if [[ ! $short ]]; then
		umount "$root/proc" 2>/dev/null || true
	fi
	rm -rf --one-file-system "$root"
}
trap cleanup EXIT

# Makes a clean Debian, or says why it cannot.
clean_debian() {
	local missing=() tool
	for tool in lintian debootstrap rpm; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	if [[ ${missing[*]} ]]; then
		{ timeout 120 apt-get update -q && timeout 180 apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$out/apt.log" 2>&1 || {
			echo "cannot install ${missing[*]}: $(tail -n 1 "$out/apt.log")"
			return 1
		}
	fi
	mkdir -p "$root/proc"
	mount -t proc proc "$root/proc" 2>"$out/mount.log" || {
		echo "cannot mount /proc for a chroot: $(cat "$out/mount.log")"
		return 1
	}
	umount "$root/proc"
	[[ -s $out/debian.tar ]] || { # kept for the next run
		timeout 300 debootstrap --variant=minbase bookworm "$root" >"$out/debootstrap.log" 2>&1 || {
			echo "debootstrap fails: $(tail -n 1 "$out/debootstrap.log")"
			umount "$root/proc" 2>/dev/null || true
			rm -rf --one-file-system "${root:?}"/*
			return 1
		}
		tar -cf "$out/debian.tar.part" -C "$root" . && mv "$out/debian.tar.part" "$out/debian.tar" || {
			echo "cannot keep the Debian in $out"
			return 1
		}
	}
	rm -rf --one-file-system "${root:?}"/*
}

mkdir -p "$out"
if [[ ! $short ]]; then
	say 'a clean Debian'
	if ! why=$(clean_debian); then
		[[ $try ]] || fail "$why"
		echo "dist: not in a clean Debian, but below a directory: $why"
		short=yes
	fi
fi

build() { # VERSION
	say "build $1"
	make --no-print-directory dist "DIST=$out/$1" "VERSION=$1" "PLATFORMS=linux/$(go env GOARCH)" >"$out/make-$1.log" 2>&1 ||
		fail "make dist: $(tail -n 20 "$out/make-$1.log")"
	(cd "$out/$1" && sha256sum --quiet -c SHA256SUMS)
}

# The same words in and outside of a chroot.
inside() { # COMMAND...
	if [[ $short ]]; then
		local program=$1
		shift
		"$root$program" "$@"
	else
		chroot "$root" "$@"
	fi
}
package() { # dpkg's options...
	if [[ $short ]]; then
		dpkg --root="$root" --force-script-chrootless --force-depends --log=/dev/null "$@" >"$out/dpkg.log" 2>&1 || fail "dpkg $*: $(cat "$out/dpkg.log")"
	else
		cp "$out"/*/*.deb "$root/tmp/"
		chroot "$root" env DEBIAN_FRONTEND=noninteractive dpkg "${@//$out\/*\//\/tmp\/}" >"$out/dpkg.log" 2>&1 || fail "dpkg $*: $(cat "$out/dpkg.log")"
	fi
}

ctl() { inside /usr/bin/brokerctl --addr "http://127.0.0.1:$((base + 1))" "$@"; }

start() {
	local config=/etc/brokerd/brokerd.toml data=/var/lib/brokerd
	local -a settings=(BROKERD_TCP_ADDRESS="127.0.0.1:$base" BROKERD_HTTP_ADDRESS="127.0.0.1:$((base + 1))"
		BROKERD_CLUSTER_ADDRESS="127.0.0.1:$((base + 2))" BROKERD_LOOKUP_ADDRESS="127.0.0.1:$((base + 3))")
	local uid gid
	IFS=: read -r _ _ uid gid _ < <(grep ^brokerd: "$root/etc/passwd") || fail 'there is no user brokerd'
	if [[ $short ]]; then
		chmod 0755 "$root"
		env "${settings[@]}" BROKERD_DATA_DIR="$root$data" setpriv --reuid "$uid" --regid "$gid" --clear-groups \
			"$root/usr/bin/brokerd" serve --config "$root$config" >"$out/node.log" 2>&1 &
	else
		chroot --userspec "$uid:$gid" "$root" env "${settings[@]}" BROKERD_DATA_DIR=$data \
			/usr/bin/brokerd serve --config $config >"$out/node.log" 2>&1 &
	fi
	node=$!
	for _ in {1..100}; do
		ctl cluster health -q >/dev/null 2>&1 && return
		kill -0 "$node" 2>/dev/null || fail "the node ended: $(cat "$out/node.log")"
		sleep 0.2
	done
	fail "the node does not become healthy: $(cat "$out/node.log")"
}

stop() {
	kill -TERM "$node"
	wait "$node" || fail "the node ends with $?: $(tail "$out/node.log")"
	node=
}

stored() { ctl topic describe parcels -o json | sed -n 's/.*"committed_end":\([0-9]*\).*/\1/p'; }
expect() { # WHAT GOT WANT
	[[ $2 == "$3" ]] || fail "$1: $2, want $3"
}

build 0.1.0
build 0.1.1
first=("$out"/0.1.0/*.deb) second=("$out"/0.1.1/*.deb)

say 'look into the packages'
tar -xzOf "$out"/0.1.0/*.tar.gz --wildcards '*/bin/brokerctl' >"$out/brokerctl"
chmod +x "$out/brokerctl"
expect 'version in the archive' "$("$out/brokerctl" version -o name)" 0.1.0
grep -q '"bomFormat": "CycloneDX"' "$out"/0.1.0/*.cdx.json || fail 'no list of modules'
[[ -s $(echo "$out"/0.1.0/*.rpm) ]] || fail 'no .rpm'
if [[ ! $short ]]; then
	lintian --allow-root --fail-on error,warning "${first[0]}"
	rpm -qlp "$out"/0.1.0/*.rpm | grep -qx /usr/bin/brokerd || fail 'the .rpm has no /usr/bin/brokerd'
fi

if [[ $short ]]; then
	mkdir -p "$root"/var/lib/dpkg/{info,updates} "$root/etc"
	touch "$root"/var/lib/dpkg/{status,available}
	printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\n' >"$root/etc/group"
else
	tar -xf "$out/debian.tar" -C "$root"
	chmod 755 "$root" # the user of the service enters it
	mount -t proc proc "$root/proc"
fi

say 'install, first start, publish'
package -i "${first[0]}"
expect 'mode of the configuration' "$(stat -c %a "$root/etc/brokerd/brokerd.toml")" 640
expect 'mode of the data' "$(stat -c %a "$root/var/lib/brokerd")" 750
[[ -s $root/usr/share/man/man8/brokerd.8.gz && -s $root/usr/share/bash-completion/completions/brokerctl ]] || fail 'no manual page or completion'
start
ctl topic create parcels >/dev/null
ctl channel create parcels/send >/dev/null
seq $messages | ctl message pub parcels -f - >/dev/null
expect 'messages published' "$(stored)" $messages

say 'upgrade beside the running node, with an edited configuration'
echo 'max_rdy_count = 77' >>"$root/etc/brokerd/brokerd.toml"
was=$node
package -i "${second[0]}"
kill -0 "$was" || fail 'the upgrade stopped the node'
grep -q '^max_rdy_count = 77' "$root/etc/brokerd/brokerd.toml" || fail 'the upgrade lost the configuration'
expect 'mode of the configuration after the upgrade' "$(stat -c %a "$root/etc/brokerd/brokerd.toml")" 640
stop
start
expect 'version that runs' "$(ctl node list -o json | sed -n 's/.*"version":"\([^"]*\)".*/\1/p')" 0.1.1
expect 'messages after the upgrade' "$(stored)" $messages

say 'back up, lose a topic, restore'
backups=/var/backups/brokerd
[[ ! $short ]] || backups=$root$backups
ctl backup create "$backups" >/dev/null
ctl topic delete parcels --purge --yes >/dev/null
ctl backup verify "$backups" >/dev/null
ctl backup restore "$backups" >/dev/null
expect 'messages restored' "$(ctl channel lag parcels/send -o 'go-template={{range .channels}}{{.depth}}{{end}}')" $messages
stop

say 'remove, purge, return'
package -r brokerd
[[ ! -e $root/usr/bin/brokerd && -s $root/etc/brokerd/brokerd.toml ]] || fail 'a removal keeps the configuration and no program'
grep -q 'stay' "$out/dpkg.log" || fail 'the removal does not say that the messages stay'
package -P brokerd
[[ ! -e $root/etc/brokerd && ! -e $root/etc/default/brokerd ]] || fail 'a purge takes the configuration'
[[ -d $root/var/lib/brokerd ]] || fail 'a purge took the messages'
package -i "${first[0]}" # and a release back
start
expect 'messages after the return' "$(stored)" $messages
stop

# The .rpm, in a directory of its own: with its scripts in the Debian of above, and with -short by hand,
# as they would need a shell in there.
if command -v rpm >/dev/null; then
	say 'install, upgrade and remove the .rpm'
	other=$root/rpm
	[[ $short ]] || { mkdir "$other" && tar -xf "$out/debian.tar" -C "$other"; }
	mkdir -p "$other/var/lib/rpm"
	rpms() { # OPTIONS...
		rpm --root "$other" --nodeps --noplugins ${short:+--noscripts} "$@" >"$out/rpm.log" 2>&1 || fail "rpm $*: $(cat "$out/rpm.log")"
	}
	rpm --root "$other" --initdb
	if [[ $short ]]; then
		mkdir -p "$other/etc"
		cp "$root/etc/passwd" "$root/etc/group" "$other/etc/"
	fi
	rpms -i "$out"/0.1.0/*.rpm
	[[ ! $short ]] || DPKG_ROOT=$other sh deploy/package/postinst.sh 1 >/dev/null
	expect 'mode of the configuration in the .rpm' "$(stat -c %a "$other/etc/brokerd/brokerd.toml")" 640
	expect 'mode of the data in the .rpm' "$(stat -c %a "$other/var/lib/brokerd")" 750
	expect 'version in the .rpm' "$("$other/usr/bin/brokerctl" version -o name)" 0.1.0
	"$other/usr/bin/brokerd" config check "$other/etc/brokerd/brokerd.toml" >/dev/null || fail 'the configuration in the .rpm is not valid'
	echo 'max_rdy_count = 77' >>"$other/etc/brokerd/brokerd.toml"
	rpms -U "$out"/0.1.1/*.rpm
	expect 'version after the upgrade of the .rpm' "$("$other/usr/bin/brokerctl" version -o name)" 0.1.1
	grep -q '^max_rdy_count = 77' "$other/etc/brokerd/brokerd.toml" || fail 'the upgrade of the .rpm lost the configuration'
	touch "$other/var/lib/brokerd/messages"
	rpms -e brokerd
	[[ ! -e $other/usr/bin/brokerd ]] || fail 'a removal of the .rpm leaves the program'
	grep -q '^max_rdy_count = 77' "$other/etc/brokerd/brokerd.toml.rpmsave" || fail 'a removal of the .rpm loses the configuration that was edited'
	[[ -e $other/var/lib/brokerd/messages ]] || fail 'a removal of the .rpm took the messages'
fi
rm -rf "$out"/0.1.? "$out/brokerctl"
say "passed in $SECONDS s"
