#!/bin/bash
# Runs everything that the continuous integration runs and says at the end what
# passed and what it took. A step that fails does not stop the others, so that
# one run tells all there is to tell.
set -u
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-1s}
# One commit gets the same inputs in every run: chance belongs to the soaks.
seed=${SEED:-1}
export TEST_SEED=$seed

# A commit plants a part of the mistakes, the next one the next; `make mutation` plants all.
parts=10
part=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % parts + 1))/$parts

names=() results=() seconds=()
failed=0

step() { # NAME COMMAND...
	local name=$1 began=$SECONDS result=ok
	shift
	printf '\n=== %s: %s\n' "$name" "$*"
	if ! "$@"; then
		result=FAILED
		failed=1
	fi
	names+=("$name") results+=("$result") seconds+=($((SECONDS - began)))
}

# What the steps build and write takes up to 6 GiB of disk. A broker on a full disk refuses publishes, and the
# steps would fail for that.
needed=$((6 << 20)) # KiB
room() {
	local free
	mkdir -p "$(go env GOCACHE)"
	free=$(df --output=avail -k "$(go env GOCACHE)" . | tail -n +2 | sort -n | head -1)
	printf '%d MiB of disk are free\n' $((free >> 10))
	((free >= needed)) && return
	printf 'that is less than the %d MiB that the steps need: the build cache is emptied\n' $((needed >> 10))
	go clean -cache
}

# The race detector wants a C compiler.
compiler() {
	command -v cc >/dev/null && return
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo 'no C compiler (cc), and only root with apt-get may install one here'
		return 1
	fi
	apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev
}

# modules fetches what all modules need. A registry that fails once is asked again.
modules() {
	local dir try
	for dir in . tools/lint tools/loadgen tools/package tools/manifests tools/vulncheck; do
		for try in 1 2 3; do
			(cd "$dir" && go mod download) && continue 2
			echo "modules of $dir could not be fetched (try $try of 3)"
			sleep $((10 * try))
		done
		return 1
	done
}

step room room
step compiler compiler
step modules modules
step build make --no-print-directory build
step tools make --no-print-directory install-tools
step check make --no-print-directory check
step vulncheck make --no-print-directory vulncheck # a warning where there is no network
step dist make --no-print-directory dist-test ARGS=-try # in a clean Debian where one can be made
step boot make --no-print-directory boot-test ARGS=-try # with systemd, where nspawn can boot one
step manifests make --no-print-directory manifests
step alerts make --no-print-directory alerts
step alerts-live make --no-print-directory alerts-live
step race make --no-print-directory race
step sim make --no-print-directory sim
step mutation make --no-print-directory mutation "ARGS=-part $part"
step fuzz make --no-print-directory fuzz "FUZZTIME=$fuzztime"
step conformance make --no-print-directory conformance
step conformance-3 make --no-print-directory conformance NODES=3
# On two processors beside a load of 10 an answer took at most 42 times as long as is bearable.
step hostile make --no-print-directory hostile "ARGS=-for 1s -slack 50"
step cluster make --no-print-directory chaos "ARGS=-again -jobs 2" "SEED=$seed"

printf '\n%-14s %-8s %s\n' STEP RESULT SECONDS
for i in "${!names[@]}"; do
	printf '%-14s %-8s %d\n' "${names[i]}" "${results[i]}" "${seconds[i]}"
done
[[ ! -s .cache/again.txt ]] || { echo 'passed only when tested once more:' && cat .cache/again.txt; }
if ((failed)); then
	printf 'FAILED after %d s\n' "$SECONDS"
else
	printf 'passed in %d s\n' "$SECONDS"
fi
exit $failed
