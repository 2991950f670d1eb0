#!/bin/sh
# After removal. Data and the user that owns it always stay. The configuration stays until the .deb
# is purged; the .rpm keeps what was edited as .rpmsave.
set -e

case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac

if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rmdir "${DPKG_ROOT:-}/etc/brokerd" 2>/dev/null || true
fi
data=${DPKG_ROOT:-}/var/lib/brokerd
if [ -d "$data" ] && [ -n "$(ls -A "$data")" ]; then
	echo "The messages in $data stay. To delete them: rm -r $data"
fi
