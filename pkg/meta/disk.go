package meta

import (
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
)

// maxDiskStarts is the maximum number of NodeStarted.Follows.
const maxDiskStarts = 128

// Disk identifies the content of a node's data directory. Another disk under the node's name, and an older
// copy of the same one, do not hold what the node acknowledged. The zero Disk is unknown.
type Disk struct {
	ID string `json:"id"` // random, chosen when the directory was created
	// Starts is the number of the last start. The metadata raises it at each registration, whatever the disk, and the
	// node adopts that: a start with a number that is registered for another one is not the last.
	Starts uint64 `json:"starts"`
	Start  string `json:"start"` // random, chosen for the last start
}

// Known reports whether the disk is known.
func (d Disk) Known() bool { return d != Disk{} }

// Outdated reports whether a start that registers is that of another disk than the one the node has
// registered last, or of an older copy of it. follows are the starts of the registering disk before this
// one that may have been registered: the disk is not told which of them were.
func (d Disk) Outdated(registering Disk, follows []string) bool {
	if !d.Known() || !registering.Known() {
		return false
	}
	return d.ID != registering.ID || d.Start != registering.Start && !slices.Contains(follows, d.Start)
}

// Precedes reports whether a start is known to be earlier than the registered one, to a node that may not know
// the last registrations.
func (d Disk) Precedes(registering Disk, follows []string) bool {
	return d.Outdated(registering, follows) && d.Starts >= registering.Starts
}

// numbered returns the number of a start that registers.
func (d Disk) numbered(registering Disk) uint64 {
	if !registering.Known() || d == registering {
		return registering.Starts
	}
	return max(d.Starts+1, registering.Starts)
}

// Difference describes a start that is Outdated, for operators.
func (d Disk) Difference(registering Disk) string {
	if d.ID != registering.ID {
		return fmt.Sprintf("another data directory, %s, than the last one, %s", registering.ID, d.ID)
	}
	return fmt.Sprintf("an older copy of data directory %s", d.ID)
}

func (c *NodeStarted) validateDisk() error {
	if len(c.Follows) > maxDiskStarts {
		return fmt.Errorf("%w: node %q: %d earlier starts of its disk, limit is %d", failure.LimitReached, c.Node.ID, len(c.Follows), maxDiskStarts)
	}
	for _, text := range append([]string{c.Node.Disk.ID, c.Node.Disk.Start, c.Marked}, c.Follows...) {
		if len(text) > maxTextLength {
			return fmt.Errorf("%w: node %q: disk identity of %d bytes is too long", failure.LimitReached, c.Node.ID, len(text))
		}
	}
	return nil
}
