#!/bin/bash
# Runs every fuzz target of the module, found by itself, each for the time given, those of two packages at the same
# time. The test binary of a package is built once, for all of its targets: linking one takes longer than a second of
# fuzzing.
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

# package runs the targets of a package and prints a line for each.
package() { # FUZZTIME DIR TARGET...
	local fuzztime=$1 dir=$2 built target result=0
	shift 2
	built=$(mktemp -d)
	if ! go test -c -vet off -fuzz . -o "$built/test" "./$dir" >"$built/log" 2>&1; then
		printf '%-44s %-32s FAILED to build\n%s\n' "$dir" "$*" "$(tail -n 40 "$built/log")"
		rm -rf "$built"
		return 1
	fi
	for target in "$@"; do
		# In the directory of the package, where its corpus is.
		if (cd "$dir" && "$built/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$fuzztime" -test.fuzzcachedir "$corpus/$dir" \
			-test.fuzzminimizetime "$minimize" -test.parallel 1) >"$built/log" 2>&1 || ended "$built/log"; then
			printf '%-44s %-32s %s\n' "$dir" "$target" "$(grep -oE 'execs: [0-9]+' "$built/log" | tail -n 1)"
		else
			printf '%-44s %-32s FAILED\n%s\n' "$dir" "$target" "$(tail -n 40 "$built/log")"
			result=1
		fi
	done
	rm -rf "$built"
	return "$result"
}
export -f package ended
corpus=$(go env GOCACHE)/fuzz/$(go list -m) # where go test -fuzz keeps what it has found, too
export minimize corpus

fuzztime=${1:-1m}
targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' cmd internal pkg test | sed -E 's|/[^/:]*:func | |' | sort)
# shellcheck disable=SC2016
if ! awk '{of[$1] = of[$1] " " $2} END {for (dir in of) print dir of[dir]}' <<<"$targets" | sort |
	xargs -P 2 -L 1 bash -c 'package "$@"' package "$fuzztime"; then
	echo 'a fuzz target failed'
	exit 1
fi
printf '%d targets, %s each, none failed\n' "$(wc -l <<<"$targets")" "$fuzztime"
