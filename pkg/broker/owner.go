package broker

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// maxOwnerFile bounds what is read of the file that names the cluster; a longer one is
// damaged.
const maxOwnerFile = 1 << 10

// ownerFile, in the data directory, holds the id of the cluster whose topics are
// there, and behind a space a CRC-32C of the id in hexadecimal: a damaged id would be
// another cluster's.
const ownerFile = "cluster"

// asidePrefix begins the names of directories with another cluster's topics.
const asidePrefix = "topics-"

// unknownCluster stands in such a name for a cluster that the owner file does not tell.
const unknownCluster = "unknown"

func encodeOwner(cluster string) []byte {
	return fmt.Appendf(nil, "%s %08x\n", cluster, crc32.Checksum([]byte(cluster), crc32.MakeTable(crc32.Castagnoli)))
}

// decodeOwner returns ok=false for a file that is not as it was written.
func decodeOwner(text []byte) (cluster string, ok bool) {
	cluster, _, _ = strings.Cut(string(text), " ")
	return cluster, cluster != "" && bytes.Equal(text, encodeOwner(cluster))
}

// owner sees to it that the topics on this disk are of this cluster. Another's may
// have the same names and incarnations, and must be neither served nor taken for
// deleted ones: they are moved aside whole, and stay until somebody removes them.
type owner struct{ *hosting }

// claim is done before any topic is opened.
func (n owner) claim() error {
	id := n.o.Meta.View().Cluster().ID
	n.cluster = id
	was, err := ownerBefore(n, id)
	if err != nil {
		return fmt.Errorf("read cluster id file: %w", err)
	}
	defer n.count()
	if err := vfs.MkdirAllSynced(n.o.FS, n.o.DataDir); err != nil {
		return err
	}
	if was != "" && was != id {
		if err := errors.Join(n.setTopicsAside(was), n.ledger.create(nil)); err != nil {
			return fmt.Errorf("set aside data of cluster %s: %w", was, err)
		}
	}
	if err := n.openLedger(was == id || n.startedBefore()); err != nil {
		return fmt.Errorf("open replica ledger: %w", err)
	}
	if was == id {
		return nil
	}
	return Claim(n.o.FS, n.o.DataDir, id)
}

// ownerBefore returns the cluster that the data is of; "": there is no word of it. A file that
// is damaged says nothing. A node that this cluster has seen start before has its data
// then; for one that is new here it may be anybody's.
func ownerBefore(n owner, id string) (string, error) {
	path := filepath.Join(n.o.DataDir, ownerFile)
	text, err := vfs.ReadFile(n.o.FS, path, maxOwnerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil && !errors.Is(err, vfs.ErrTooLong) {
		return "", err
	}
	cluster, ok := decodeOwner(text)
	switch {
	case ok:
		return cluster, nil
	case n.startedBefore():
		n.log.Error("cluster id file is corrupt; this node is a known member, so its topics are assumed to belong to this cluster and the file is rewritten",
			"path", path, "cluster", id)
		return "", nil
	}
	n.log.Error("cluster id file is corrupt and this node is new in its cluster; its topics are set aside and not served",
		"path", path, "cluster", id)
	return unknownCluster, nil
}

func (n owner) setTopicsAside(cluster string) error {
	if _, err := n.o.FS.Stat(n.dirs.topics()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	as := fmt.Sprintf("%s%s-%d", asidePrefix, cluster, n.o.Meta.Applied())
	return n.move(n.dirs.topics(), n.o.DataDir, as)
}

// openLedger reads the ledger before any replica is opened. Where a node that has
// run before finds none, the ledger is made from the metadata: every replica for
// which this node counts as in sync was there, unless the opposite can be shown.
func (n owner) openLedger(ranBefore bool) error {
	there, err := n.ledger.load()
	if err != nil || there {
		return err
	}
	var names []string
	for _, t := range n.o.Meta.Topics() {
		for i := range t.Partitions {
			if ranBefore && !meta.IsEphemeral(t.Name) && slices.Contains(t.Partitions[i].ISR, n.o.Self) {
				names = append(names, replicaName(t.Name, t.Incarnation, i))
			}
		}
	}
	if len(names) > 0 {
		n.log.Warn("replica ledger missing, recreated from metadata; in-sync replicas without a directory count as lost",
			"path", n.ledger.dir, "replicas", len(names))
	}
	return n.ledger.create(names)
}

// startedBefore says whether this is not the first start of the node in this
// cluster.
func (n owner) startedBefore() bool {
	self := n.o.Meta.Node(n.o.Self)
	return self != nil && self.Incarnation > 1
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
			n.log.Error("data of another cluster found; kept, not served", "path", filepath.Join(n.o.DataDir, name))
		}
	}
}
