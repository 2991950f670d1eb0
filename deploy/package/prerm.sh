#!/bin/sh
# Before removal, of the .deb (remove) and of the .rpm (0). An upgrade leaves the node running.
set -e

case "$1" in
remove | deconfigure | 0) ;;
*) exit 0 ;;
esac

if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl disable --now brokerd.service brokerd-backup.timer
fi
