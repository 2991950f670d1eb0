package broker

import (
	"fmt"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// ReadCopy says how far the copy of a partition in a data directory that no
// process uses reaches. Without a copy there it is the zero Extent.
func ReadCopy(fsys vfs.FS, dataDir, topic string, in meta.Incarnation, partition int) (commitlog.Extent, error) {
	e, err := commitlog.Inspect(fsys, filepath.Join(layout{dataDir}.topic(topic, in), fmt.Sprint(partition)))
	if err != nil {
		return e, fmt.Errorf("inspect log of %s/%d: %w", topic, partition, err)
	}
	return e, nil
}

// Claim makes the topics in a data directory that no process uses those of a
// cluster. It is for a cluster that was recovered from this directory: the topics
// of any other cluster must not be taken over.
func Claim(fsys vfs.FS, dataDir, cluster string) error {
	if err := vfs.WriteFileSynced(fsys, filepath.Join(dataDir, ownerFile), encodeOwner(cluster)); err != nil {
		return fmt.Errorf("write cluster id file: %w", err)
	}
	return nil
}
