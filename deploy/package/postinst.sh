#!/bin/sh
# After unpacking, of the .deb (configure, version before) and of the .rpm (1: first, 2: upgrade).
# It makes the user and the directories. It starts nothing: a node is configured first. It restarts
# nothing: nodes of a cluster are restarted one after the other, when the one before is in sync.
set -e

root=${DPKG_ROOT:-}
case "$1" in
configure) before=$2 ;;
1) before= ;;
[2-9]*) before=yes ;;
*) exit 0 ;; # a failed upgrade or removal is undone: nothing has changed
esac

if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers ${root:+--root="$root"} brokerd.conf
else
	useradd ${root:+--prefix "$root"} --system --user-group --home-dir /var/lib/brokerd --no-create-home \
		--shell /usr/sbin/nologin --comment "brokerd work-queue broker" brokerd || [ $? = 9 ] # 9: there already
fi

if command -v systemd-tmpfiles >/dev/null 2>&1; then
	systemd-tmpfiles ${root:+--root="$root"} --create brokerd.conf
else
	gid=$(sed -n 's/^brokerd:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/group")
	uid=$(sed -n 's/^brokerd:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/passwd")
	[ -d "$root/var/lib/brokerd" ] || install -d -m 0750 -o "$uid" -g "$gid" "$root/var/lib/brokerd"
	chown "0:$gid" "$root/etc/brokerd"
	chmod 0750 "$root/etc/brokerd"
	if [ -e "$root/etc/brokerd/brokerd.toml" ]; then
		chown "0:$gid" "$root/etc/brokerd/brokerd.toml"
		chmod 0640 "$root/etc/brokerd/brokerd.toml"
	fi
fi

running=
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if systemctl is-active --quiet brokerd.service; then running=yes; fi
fi

if [ -n "$running" ]; then
	echo "brokerd continues to run as the version before. To upgrade this node of a cluster:"
	echo "  brokerctl node drain NODE --stopping --wait && systemctl restart brokerd && brokerctl node undrain NODE"
elif [ -z "$before" ]; then
	echo "Edit /etc/brokerd/brokerd.toml, then: systemctl enable --now brokerd"
fi
