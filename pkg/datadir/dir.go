package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Dir is a node's data directory. It names the paths in it.
type Dir struct {
	FS   vfs.FS
	Root string
}

// At returns the data directory at a path.
func At(fsys vfs.FS, root string) Dir { return Dir{fsys, root} }

// Topics holds a directory for each topic of which this node has a replica.
func (d Dir) Topics() string { return filepath.Join(d.Root, "topics") }

// Trash holds data to be removed, which is moved there atomically.
func (d Dir) Trash() string { return filepath.Join(d.Root, "trash") }

// Quarantine holds copies of replicas that were set aside.
func (d Dir) Quarantine() string { return filepath.Join(d.Root, "quarantine") }

// Scrubbed is the file in which the scrubber stores its progress.
func (d Dir) Scrubbed() string { return filepath.Join(d.Root, "scrubbed") }

// Redo holds the redo journal.
func (d Dir) Redo() string { return filepath.Join(d.Root, "redo") }

// Owner is the file that names the cluster whose topics are here.
func (d Dir) Owner() string { return filepath.Join(d.Root, "cluster") }

func (d Dir) replicas() string { return filepath.Join(d.Root, "replicas") }

// Topic holds this node's replicas of a topic.
func (d Dir) Topic(name string, in meta.Incarnation) string {
	return filepath.Join(d.Topics(), TopicName(name, in))
}

// Replica holds the replica of a partition: its log, the positions of its channels and
// the marks of mark.go.
func (d Dir) Replica(t *meta.Topic, i int) string {
	return filepath.Join(d.Topic(t.Name, t.Incarnation), strconv.Itoa(i))
}

// TopicName names a topic's directory.
func TopicName(topic string, in meta.Incarnation) string { return fmt.Sprintf("%s.%d", topic, in) }

// ParseTopicName is the inverse of TopicName.
func ParseTopicName(name string) (topic string, in meta.Incarnation, ok bool) {
	topic, number, ok := cutLast(name)
	if !ok {
		return "", 0, false
	}
	n, err := strconv.ParseUint(number, 10, 64)
	return topic, meta.Incarnation(n), err == nil
}

// ReplicaName names a replica in the Ledger, and in the journal of what is done to it.
func ReplicaName(topic string, in meta.Incarnation, i int) string {
	return fmt.Sprintf("%s.%d", TopicName(topic, in), i)
}

// parseReplicaName is the inverse of ReplicaName.
func parseReplicaName(name string) (topic string, in meta.Incarnation, i int, ok bool) {
	of, number, ok := cutLast(name)
	if !ok {
		return "", 0, 0, false
	}
	i, err := strconv.Atoi(number)
	if topic, in, ok = ParseTopicName(of); !ok || err != nil || i < 0 {
		return "", 0, 0, false
	}
	return topic, in, i, true
}

// AsideName names a replica that is moved to Quarantine or Trash, at a version
// of its partition. Move adds a number to the version if it is moved again at the same.
func AsideName(topic string, in meta.Incarnation, i int, version uint64) string {
	return fmt.Sprintf("%s.%d", ReplicaName(topic, in, i), version)
}

// ParseAsideName is the inverse of AsideName. It ignores the version.
func ParseAsideName(name string) (topic string, in meta.Incarnation, i int, ok bool) {
	of, _, ok := cutLast(name)
	if !ok {
		return "", 0, 0, false
	}
	return parseReplicaName(of)
}

// cutLast splits a name at its last dot, because names of topics may contain
// dots.
func cutLast(name string) (before, after string, ok bool) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return "", "", false
	}
	return name[:dot], name[dot+1:], true
}

// Move atomically moves a directory into another under a name, or, if that is in use, under the name with a number
// behind it: as-2, as-3. That is durable when Move returns the name. A missing directory counts as already moved, and
// has the name "".
func (d Dir) Move(dir, into, as string) (name string, err error) {
	if err := vfs.MkdirAllSynced(d.FS, into); err != nil {
		return "", err
	}
	name = as
	for n := 2; ; n++ {
		if err = moveTo(d.FS, dir, filepath.Join(into, name)); !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
		name = fmt.Sprintf("%s-%d", as, n)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return name, errors.Join(d.FS.SyncDir(filepath.Dir(dir)), d.FS.SyncDir(into))
}

// moveTo renames a directory. It refuses a name that is in use, also that of an empty directory.
func moveTo(fsys vfs.FS, dir, to string) error {
	switch _, err := fsys.Stat(to); {
	case err == nil:
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return fsys.Rename(dir, to)
}

// ReadCopy returns the extent of the copy of a partition, in a data directory that
// no process uses. Without a copy it returns the zero Extent.
func (d Dir) ReadCopy(topic string, in meta.Incarnation, i int) (commitlog.Extent, error) {
	e, err := commitlog.Inspect(d.FS, filepath.Join(d.Topic(topic, in), strconv.Itoa(i)), nil)
	if err != nil {
		return e, fmt.Errorf("inspect log of %s/%d: %w", topic, i, err)
	}
	return e, nil
}
