#!/bin/bash
# Checks the rules of Prometheus with promtool: that they are well formed, and that each alert
# fires when it should and is silent when it should be.
set -euo pipefail
cd "$(dirname "$0")/../deploy/prometheus"

if ! command -v promtool >/dev/null; then
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo 'no promtool (of Prometheus), and only root with apt-get may install it here'
		exit 1
	fi
	# The package alone: what it depends on is for the server.
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	chmod 0755 "$dir"
	apt-get update -q >/dev/null
	(cd "$dir" && apt-get download -q prometheus >/dev/null && dpkg-deb -x prometheus_*.deb .)
	PATH=$dir/usr/bin:$PATH
fi
promtool check rules brokerd-alerts.yml
promtool test rules brokerd-alerts_test.yml
