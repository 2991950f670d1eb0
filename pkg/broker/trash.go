package broker

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Data leaves the disk only because a committed command deleted its topic. It
// is first moved aside in one step, so that a topic is there or not, and then
// removed.

// trash moves a topic's directory aside and removes it in the background.
func (b *Broker) trash(dir string) error {
	if err := b.o.FS.MkdirAll(b.dirs.trash()); err != nil {
		return err
	}
	from, to := filepath.Join(b.dirs.topics(), dir), filepath.Join(b.dirs.trash(), dir)
	switch err := b.o.FS.Rename(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if err := errors.Join(b.o.FS.SyncDir(b.dirs.topics()), b.o.FS.SyncDir(b.dirs.trash())); err != nil {
		return err
	}
	b.running.Go(func() { b.remove(to) })
	return nil
}

func (b *Broker) remove(path string) {
	if err := b.o.FS.RemoveAll(path); err != nil {
		b.log.Warn("removing a deleted topic's data", "path", path, "error", err)
	}
}

// sweep finishes deletions that a crash interrupted. A directory whose topic
// the metadata does not know is a deleted topic's if the metadata is past the
// index that created it; otherwise it is left alone, and said.
func (b *Broker) sweep() {
	if left, err := b.o.FS.ReadDir(b.dirs.trash()); err == nil {
		for _, name := range left {
			b.running.Go(func() { b.remove(filepath.Join(b.dirs.trash(), name)) })
		}
	}
	dirs, err := b.o.FS.ReadDir(b.dirs.topics())
	if err != nil {
		return
	}
	applied := b.o.Meta.Applied()
	for _, dir := range dirs {
		name, in, ok := parseTopicDir(dir)
		if t := b.o.Meta.Topic(name); ok && t != nil && t.Incarnation == in {
			continue
		}
		if !ok || in > meta.Incarnation(applied) {
			b.log.Warn("a directory belongs to no topic that this metadata ever knew; it is left alone", "path", filepath.Join(b.dirs.topics(), dir))
			continue
		}
		if err := b.trash(dir); err != nil {
			b.log.Warn("moving a deleted topic's data aside", "path", dir, "error", err)
		}
	}
}
