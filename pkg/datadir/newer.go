package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Newer is the data in a directory, which no process uses, that is newer than a state of the metadata:
// topics created after its index, and partitions that it assigns to other nodes. A start with metadata
// restored to that state would treat them as data of deleted topics.
type Newer struct {
	dir   Dir
	state *meta.State
	self  meta.NodeID
}

// NewerThan returns the data in the directory of node self that a state does not know.
func NewerThan(state *meta.State, dir Dir, self meta.NodeID) Newer { return Newer{dir, state, self} }

// Paths returns its directories, below the directory of all topics.
func (n Newer) Paths() (paths []string, err error) {
	fsys, topics := n.dir.FS, n.dir.Topics()
	dirs, err := fsys.ReadDir(topics)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		name, in, ok := ParseTopicName(dir)
		switch t := n.state.Topic(name); {
		case ok && t != nil && t.Incarnation == in:
			parts, err := fsys.ReadDir(filepath.Join(topics, dir))
			if err != nil {
				return nil, err
			}
			for _, part := range parts {
				i, err := strconv.Atoi(part)
				if err == nil && (i < 0 || i >= len(t.Partitions) || !slices.Contains(t.Partitions[i].Replicas, n.self)) {
					paths = append(paths, filepath.Join(dir, part))
				}
			}
		case ok && in > meta.Incarnation(n.state.Index()):
			paths = append(paths, dir)
		}
	}
	return paths, nil
}

// Kept is the directory to which Keep moves them.
func (n Newer) Kept() string {
	return filepath.Join(n.dir.Root, fmt.Sprintf("%s%s-behind-%d", asidePrefix, n.state.Cluster().ID, n.state.Index()))
}

// Keep moves them to Kept, where they stay until an operator removes them. It may be called
// again.
func (n Newer) Keep() error {
	paths, err := n.Paths()
	for _, path := range paths {
		to := filepath.Join(n.Kept(), path)
		_, moved := n.dir.Move(filepath.Join(n.dir.Topics(), path), filepath.Dir(to), filepath.Base(to))
		err = errors.Join(err, moved)
	}
	return err
}
