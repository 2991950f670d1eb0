#!/bin/bash
# Runs every fuzz target of the module, found by itself, each for the time given.
set -u
cd "$(dirname "$0")/.."

fuzztime=${1:-1m}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ran=0 failed=0

# Without a limit the engine spends up to a minute of its time on making one
# interesting input smaller, and tries nothing else meanwhile.
minimize=10x

# ended says that a target failed only because its time was up: on a busy machine
# the fuzzing engine reports its own deadline as an error. A
# finding always names the input that it wrote.
ended() {
	grep -q 'context deadline exceeded' "$1" && ! grep -qE 'Failing input written|panic:' "$1"
}

while IFS=: read -r file target; do
	dir=./$(dirname "$file")
	printf '%-44s %-32s ' "${dir#./}" "$target"
	if go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime "$minimize" -parallel 2 >"$log" 2>&1 || ended "$log"; then
		grep -oE 'execs: [0-9]+' "$log" | tail -n 1
	else
		printf 'FAILED\n'
		tail -n 40 "$log"
		failed=$((failed + 1))
	fi
	ran=$((ran + 1))
done < <(grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' cmd internal pkg test 2>/dev/null |
	sed -E 's/^([^:]*):func /\1:/' | sort)

printf '%d targets, %s each, %d failed\n' "$ran" "$fuzztime" "$failed"
((failed == 0))
