#!/bin/bash
# Builds the release before this one into PROGRAM, for `test/cluster -previous`: the newest tag of a release below
# this commit or, as long as there is none, the commit that test/cluster/previous names. Whoever makes a change that
# such a program does not understand raises the feature level (CONTRIBUTING.md) or, before the first
# release, names a commit after the change, in the next one.
# The program supports a feature level less than this one, so that the upgrade has something to finalize.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1
commit=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null || sed -n '/^[0-9a-f]/{p;q}' test/cluster/previous)
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
	echo "previous: $commit is not in this repository's history (a shallow clone, or an archive): mixed-versions is skipped"
	rm -f "$program"
	exit 0
fi
level=$(sed -n 's/^var newest = "\([0-9]*\)"$/\1/p' pkg/level/level.go)
stamp="$(git rev-parse "$commit") level $((level - 1))"
if [[ -x $program && $(cat "$program.of" 2>/dev/null) == "$stamp" ]]; then
	exit 0
fi
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
git archive "$commit" | tar -x -C "$sources"
pkg=github.com/brokerd/brokerd
(cd "$sources" && CGO_ENABLED=0 go build -trimpath -o brokerd.previous \
	-ldflags "-X $pkg/pkg/level.newest=$((level - 1)) -X $pkg/internal/build.version=0.0.1 -X $pkg/internal/build.commit=$commit" ./cmd/brokerd)
mkdir -p "$(dirname "$program")"
mv "$sources/brokerd.previous" "$program"
echo "$stamp" >"$program.of"
