package broker

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Data leaves the disk only because a committed command deleted its topic. It
// is first moved aside in one step, so that a topic is there or not, and then
// removed.

// trash moves a topic's directory aside and removes it in the background.
func (n *hosting) trash(dir string) error {
	if err := vfs.MkdirAllSynced(n.o.FS, n.dirs.trash()); err != nil {
		return err
	}
	from, to := filepath.Join(n.dirs.topics(), dir), filepath.Join(n.dirs.trash(), dir)
	switch err := n.o.FS.Rename(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if err := errors.Join(n.o.FS.SyncDir(n.dirs.topics()), n.o.FS.SyncDir(n.dirs.trash())); err != nil {
		return err
	}
	n.running.Go(func() { n.remove(to) })
	return nil
}

func (n *hosting) remove(path string) {
	if err := n.o.FS.RemoveAll(path); err != nil {
		n.log.Warn("removing a deleted topic's data", "path", path, "error", err)
	}
}

// sweep finishes deletions that a crash interrupted. A directory whose topic
// the metadata does not know is a deleted topic's if the metadata is past the
// index that created it; otherwise it is left alone, and said.
func (n *hosting) sweep() {
	if left, err := n.o.FS.ReadDir(n.dirs.trash()); err == nil {
		for _, name := range left {
			n.running.Go(func() { n.remove(filepath.Join(n.dirs.trash(), name)) })
		}
	}
	dirs, err := n.o.FS.ReadDir(n.dirs.topics())
	if err != nil {
		return
	}
	applied := n.o.Meta.Applied()
	for _, dir := range dirs {
		name, in, ok := parseTopicDir(dir)
		if t := n.o.Meta.Topic(name); ok && t != nil && t.Incarnation == in {
			continue
		}
		if !ok || in > meta.Incarnation(applied) {
			n.strays.Add(1)
			n.log.Error("a directory belongs to no topic that this metadata ever knew; it is left alone", "path", filepath.Join(n.dirs.topics(), dir))
			continue
		}
		if err := n.trash(dir); err != nil {
			n.log.Warn("moving a deleted topic's data aside", "path", dir, "error", err)
		}
	}
}
