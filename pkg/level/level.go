// Package level defines feature levels: what a release may write and send that other releases
// must understand.
//
// A release raises the level when it adds something that an older one cannot read: a metadata
// command, a stored format, a cluster call. The cluster's level is stored in its metadata. It
// equals the highest level that the oldest participating release supports, and rises only when
// an operator confirms that no older release will run again. Until then new releases do not use
// newer features.
//
// Invariants:
//
//  1. The level of a released feature never changes.
//  2. A program runs only in a cluster whose level is within its supported range.
//
// Start at Supported and Level.Has. docs/operations/upgrade.md says what an operator sees.
package level

import (
	"fmt"
	"strconv"
	"sync"
)

// Level is a feature level. 0 is the level of clusters from before levels
// existed.
type Level uint32

// Feature is a format or request that a node writes or sends only in a cluster in which
// every node supports it.
type Feature struct{ since Level }

// The features, each since the level of the release that brought it.
var (
	// ForwardedPublisher: a publish that is forwarded to the partition's leader names the
	// client that published it, for traces.
	ForwardedPublisher = Feature{1}
	// AccessControl: users, tokens and rules in the metadata, which every node enforces.
	AccessControl = Feature{1}
)

// Has reports whether a cluster of this level has a feature.
func (l Level) Has(f Feature) bool { return l >= f.since }

// String returns the number.
func (l Level) String() string { return strconv.FormatUint(uint64(l), 10) }

// Range is the levels that a program supports, both included.
type Range struct {
	Min Level `json:"min"`
	Max Level `json:"max"`
}

// Supports reports whether the range includes a level.
func (r Range) Supports(l Level) bool { return r.Min <= l && l <= r.Max }

// Valid reports whether there is a level in the range.
func (r Range) Valid() bool { return r.Min <= r.Max }

// String describes the range: "1" or "1 to 2".
func (r Range) String() string {
	if r.Min == r.Max {
		return r.Min.String()
	}
	return fmt.Sprintf("%d to %d", r.Min, r.Max)
}

// oldest is the lowest level in which this release can run.
const oldest Level = 0

// newest is the highest level that this release supports. The linker may set it, so that a
// build can simulate the next release: see test/cluster.
var newest = "1"

// Supported returns the levels that this program supports.
var Supported = sync.OnceValue(func() Range {
	n, err := strconv.ParseUint(newest, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("BUG: linked with feature level %q, which is not a number", newest))
	}
	return Range{oldest, Level(n)}
})
