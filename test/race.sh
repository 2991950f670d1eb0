#!/bin/bash
# Tests PACKAGES with the race detector. A package whose tests start processes of the broker is tested once more,
# alone, if it failed without a data race: its tests wait in real time, and a busy machine may be late for them. What
# passed only then is named at the end, and in the file AGAIN. Every other failure counts at once.
# usage: test/race.sh AGAIN PACKAGES
set -uo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
again=$1
shift
processes='/(cmd/brokerd|cmd/brokerctl|test/blackbox|test/network|pkg/brokertest)$'

rm -f "$again"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$go" test -race -vet off -timeout 10m "$@" 2>&1 | tee "$out" && exit 0

mapfile -t failed < <(awk '$1 == "FAIL" && NF > 1 {print $2}' "$out")
if ((${#failed[@]} == 0)) || grep -q -e 'WARNING: DATA RACE' -e '^panic: ' -e '^fatal error: ' "$out"; then
	exit 1
fi
for p in "${failed[@]}"; do
	[[ $p =~ $processes ]] || exit 1
done
echo "test once more, alone: ${failed[*]}"
for p in "${failed[@]}"; do
	"$go" test -race -vet off -count 1 -timeout 10m "$p" || exit 1
done
mkdir -p "$(dirname "$again")"
grep -a -e '^ *--- FAIL' "$out" >"$again"
echo "passed only when tested once more:"
cat "$again"
