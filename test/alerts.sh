#!/bin/bash
# Checks the rules of Prometheus with promtool: that they are well formed, and that each alert
# fires when it should and is silent when it should be. With `live`, a Prometheus with these rules scrapes three
# nodes, to which the trouble of each alert is done (test/alerts): what follows are arguments of that. Where there is
# no Prometheus and none may be installed, `live` says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# What one run has downloaded, the next one uses.
cache=$PWD/.cache/prometheus
PATH=$cache/usr/bin:$PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

present() { command -v promtool >/dev/null && command -v prometheus >/dev/null; }

# The package alone: what it depends on is for the server.
download() {
	chmod 0755 "$dir"
	apt-get update -q >/dev/null &&
		(cd "$dir" && apt-get download -q prometheus >/dev/null) &&
		mkdir -p "$cache" && dpkg-deb -x "$dir"/prometheus_*.deb "$cache"
}

if ! present && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	download || echo 'prometheus cannot be downloaded with apt-get'
fi
if ! present; then
	if [[ ${1:-} == live ]]; then
		echo 'SKIPPED, no alert was fired: there is no prometheus, and only root with apt-get may install it here'
		exit 0
	fi
	echo 'no promtool and prometheus, and only root with apt-get may install them here'
	exit 1
fi
if [[ ${1:-} == live ]]; then
	shift
	CGO_ENABLED=0 go build -trimpath -ldflags '-X github.com/brokerd/brokerd/internal/build.version=9.9.9' -o "$dir/other" ./cmd/brokerd
	go build -o "$dir/alerts" ./test/alerts
	"$dir/alerts" -other "$dir/other" "$@"
	exit
fi
cd deploy/prometheus
promtool check rules brokerd-alerts.yml
promtool test rules brokerd-alerts_test.yml
