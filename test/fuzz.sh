#!/bin/bash
# Runs every fuzz target of the module, found by itself, each for the time given.
set -u
cd "$(dirname "$0")/.."

fuzztime=${1:-1m}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ran=0 failed=0

while IFS=: read -r file target; do
	dir=./$(dirname "$file")
	printf '%-44s %-32s ' "${dir#./}" "$target"
	if go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -parallel 2 >"$log" 2>&1; then
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
