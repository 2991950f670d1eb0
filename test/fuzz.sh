#!/bin/bash
# Runs every fuzz target of the module, found by itself, each for the time given,
# two at the same time: while one is linked, the other has the processors.
set -u
cd "$(dirname "$0")/.."

# Without a limit the engine spends up to a minute of its time on making one
# interesting input smaller, and tries nothing else meanwhile.
minimize=10x

# ended says that a target failed only because its time was up: on a busy machine
# the fuzzing engine reports its own deadline as an error. A
# finding always names the input that it wrote.
ended() {
	grep -q 'context deadline exceeded' "$1" && ! grep -qE 'Failing input written|panic:' "$1"
}

# one runs a target of a package and prints its line.
one() { # FUZZTIME DIR TARGET
	local log result=0
	log=$(mktemp)
	if go test "./$2" -run '^$' -fuzz "^$3\$" -fuzztime "$1" -fuzzminimizetime "$minimize" -parallel 1 >"$log" 2>&1 || ended "$log"; then
		printf '%-44s %-32s %s\n' "$2" "$3" "$(grep -oE 'execs: [0-9]+' "$log" | tail -n 1)"
	else
		printf '%-44s %-32s FAILED\n%s\n' "$2" "$3" "$(tail -n 40 "$log")"
		result=1
	fi
	rm -f "$log"
	return "$result"
}
export -f one ended
export minimize

fuzztime=${1:-1m}
targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' cmd internal pkg test | sed -E 's|/[^/:]*:func | |' | sort)
# shellcheck disable=SC2016
if ! xargs -P 2 -L 1 bash -c 'one "$@"' one "$fuzztime" <<<"$targets"; then
	echo 'a fuzz target failed'
	exit 1
fi
printf '%d targets, %s each, none failed\n' "$(wc -l <<<"$targets")" "$fuzztime"
