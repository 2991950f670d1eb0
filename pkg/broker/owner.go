package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// maxClusterID bounds what is read of the file that names the cluster.
const maxClusterID = 1 << 10

// asidePrefix begins the names of directories with another cluster's topics.
const asidePrefix = "topics-"

// owner sees to it that the topics on this disk are of this cluster. Another's may
// have the same names and incarnations, and must be neither served nor taken for
// deleted ones: they are moved aside whole, and stay until somebody removes them.
type owner struct{ *hosting }

// claim is done before any topic is opened.
func (n owner) claim() error {
	id := n.o.Meta.View().Cluster().ID
	path := filepath.Join(n.o.DataDir, "cluster")
	text, err := vfs.ReadFile(n.o.FS, path, maxClusterID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("whose data this is: %w", err)
	}
	was := strings.TrimSpace(string(text))
	defer n.count()
	if was == id {
		return nil
	}
	if was != "" {
		if err := n.setTopicsAside(was); err != nil {
			return fmt.Errorf("set the data of cluster %s aside: %w", was, err)
		}
	}
	if err := vfs.MkdirAllSynced(n.o.FS, n.o.DataDir); err != nil {
		return err
	}
	if err := vfs.WriteFileSynced(n.o.FS, path, []byte(id+"\n")); err != nil {
		return fmt.Errorf("note whose data this is: %w", err)
	}
	return nil
}

func (n owner) setTopicsAside(cluster string) error {
	if _, err := n.o.FS.Stat(n.dirs.topics()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	as := fmt.Sprintf("%s%s-%d", asidePrefix, cluster, n.o.Meta.Applied())
	return n.move(n.dirs.topics(), n.o.DataDir, as)
}

// count says what lies aside, at every start.
func (n owner) count() {
	names, err := n.o.FS.ReadDir(n.o.DataDir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) {
			n.strays.Add(1)
			n.log.Error("topics of another cluster lie aside", "path", filepath.Join(n.o.DataDir, name))
		}
	}
}
