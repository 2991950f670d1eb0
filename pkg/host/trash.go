package host

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Data leaves the disk only because a committed command deleted its topic. It
// is first moved aside in one step, so that a topic is there or not, and then
// removed.

// trash moves a directory aside, under a name that no other there ever has, and
// removes it in the background; where the node closes, at its next start.
func (n *Host) trash(dir, as string) error {
	if err := n.dirs.Move(dir, n.dirs.Trash(), as); err != nil {
		return err
	}
	n.running.Go(func() { n.remove(filepath.Join(n.dirs.Trash(), as)) })
	return nil
}

func (n *Host) remove(path string) {
	if err := n.o.FS.RemoveAll(path); err != nil {
		n.log.Warn("cannot remove data of deleted topic", "path", path, "error", err)
	}
}

// sweep finishes deletions that a crash interrupted. A directory whose topic
// the metadata does not know is a deleted topic's if the metadata is past the
// index that created it; otherwise it is left alone, and said. The same goes for
// a partition of which the metadata says that it is held elsewhere.
func (n *Host) sweep() {
	if left, err := n.o.FS.ReadDir(n.dirs.Trash()); err == nil {
		for _, name := range left {
			n.running.Go(func() { n.remove(filepath.Join(n.dirs.Trash(), name)) })
		}
	}
	if err := n.ledger.Trim(n.o.Meta.View(), n.o.Self); err != nil {
		n.log.Warn("cannot remove obsolete ledger entries; retrying at the next start", "path", n.ledger.Path(), "error", err)
	}
	dirs, err := n.o.FS.ReadDir(n.dirs.Topics())
	if err != nil {
		return
	}
	applied := n.o.Meta.Applied()
	for _, dir := range dirs {
		path := filepath.Join(n.dirs.Topics(), dir)
		name, in, ok := datadir.ParseTopicName(dir)
		if t := n.o.Meta.Topic(name); ok && t != nil && t.Incarnation == in {
			n.sweepPartitions(path, t)
			continue
		}
		if !ok || in > meta.Incarnation(applied) {
			n.strays.Add(1)
			n.log.Error("directory belongs to no known topic; left unchanged", "path", path)
			continue
		}
		if err := n.trash(path, dir); err != nil {
			n.log.Warn("cannot move data of deleted topic to trash", "path", dir, "error", err)
		}
	}
}

// sweepPartitions moves replicas aside that went to other nodes while this one
// was away.
func (n *Host) sweepPartitions(dir string, t *meta.Topic) {
	parts, err := n.o.FS.ReadDir(dir)
	if err != nil {
		return
	}
	for _, part := range parts {
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= len(t.Partitions) || slices.Contains(t.Partitions[i].Replicas, n.o.Self) {
			continue
		}
		as := datadir.AsideName(t.Name, t.Incarnation, i, t.Partitions[i].Version)
		if err := n.trash(filepath.Join(dir, part), as); err != nil {
			n.log.Warn("cannot move replica that is no longer assigned here to trash", "path", filepath.Join(dir, part), "error", err)
		}
	}
}
