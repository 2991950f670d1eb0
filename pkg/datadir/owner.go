package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// maxOwnerFile is the maximum size of the owner file; a longer one is damaged.
const maxOwnerFile = 1 << 10

// asidePrefix begins the names of directories with another cluster's topics.
const asidePrefix = "topics-"

// unknownCluster is the cluster in such a name if the owner file is missing or damaged.
const unknownCluster = "unknown"

// encodeOwner returns the content of the owner file: the id of the cluster, a space, and
// its CRC-32C in hexadecimal, because a damaged id would name another cluster.
func encodeOwner(cluster string) []byte {
	return fmt.Appendf(nil, "%s %08x\n", cluster, crc32.Checksum([]byte(cluster), crc32.MakeTable(crc32.Castagnoli)))
}

// decodeOwner returns ok=false for a damaged file.
func decodeOwner(text []byte) (cluster string, ok bool) {
	cluster, _, _ = strings.Cut(string(text), " ")
	return cluster, cluster != "" && bytes.Equal(text, encodeOwner(cluster))
}

// claimant is the node that claims a data directory.
type claimant struct {
	dir    Dir
	ledger *Ledger
	state  *meta.State
	self   meta.NodeID
	log    *slog.Logger
}

// Claim assigns the data directory to the node's cluster, as the metadata knows both, and
// reads the ledger, before any topic is opened. Topics of another cluster may have the
// same names and incarnations, and must be neither served nor treated as deleted: they are
// moved aside as a whole, and stay until an operator removes them. Claim returns the
// number of directories with such topics.
func (d Dir) Claim(l *Ledger, s *meta.State, self meta.NodeID, log *slog.Logger) (foreign int, err error) {
	c := claimant{d, l, s, self, log}
	if err := c.claim(); err != nil {
		return 0, err
	}
	return c.count(), nil
}

func (c claimant) claim() error {
	id := c.state.Cluster().ID
	was, err := c.ownerBefore()
	if err != nil {
		return fmt.Errorf("read cluster id file: %w", err)
	}
	if err := vfs.MkdirAllSynced(c.dir.FS, c.dir.Root); err != nil {
		return err
	}
	if was != "" && was != id {
		if err := errors.Join(c.setTopicsAside(was), c.ledger.create(nil)); err != nil {
			return fmt.Errorf("set aside data of cluster %s: %w", was, err)
		}
	}
	if err := c.openLedger(was == id || c.startedBefore()); err != nil {
		return fmt.Errorf("open replica ledger: %w", err)
	}
	if was == id {
		return nil
	}
	return c.dir.SetOwner(id)
}

// SetOwner assigns the topics in a data directory to a cluster. Apart from Claim, only
// a recovery of the cluster from a directory that no process uses calls it: the topics
// of any other cluster must not be taken over.
func (d Dir) SetOwner(cluster string) error {
	if err := vfs.WriteFileSynced(d.FS, d.Owner(), encodeOwner(cluster)); err != nil {
		return fmt.Errorf("write cluster id file: %w", err)
	}
	return nil
}

// ClusterID returns the id of the cluster to which the data belongs; "": the owner file is missing or
// damaged.
func (d Dir) ClusterID() string {
	text, err := vfs.ReadFile(d.FS, d.Owner(), maxOwnerFile)
	cluster, ok := decodeOwner(text)
	if err != nil || !ok {
		return ""
	}
	return cluster
}

// ownerBefore returns the cluster to which the data belongs; "": no owner is known. If the
// owner file is damaged, the data of a node that has started in this cluster before is this
// cluster's; that of a new node may be any cluster's.
func (c claimant) ownerBefore() (string, error) {
	id := c.state.Cluster().ID
	text, err := vfs.ReadFile(c.dir.FS, c.dir.Owner(), maxOwnerFile)
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
	case c.startedBefore():
		c.log.Error("cluster id file is corrupt; this node is a known member, so its topics are assumed to belong to this cluster and the file is rewritten",
			"path", c.dir.Owner(), "cluster", id)
		return "", nil
	}
	c.log.Error("cluster id file is corrupt and this node is new in its cluster; its topics are set aside and not served",
		"path", c.dir.Owner(), "cluster", id)
	return unknownCluster, nil
}

func (c claimant) setTopicsAside(cluster string) error {
	if _, err := c.dir.FS.Stat(c.dir.Topics()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := c.dir.Move(c.dir.Topics(), c.dir.Root, fmt.Sprintf("%s%s-%d", asidePrefix, cluster, c.state.Index()))
	return err
}

// openLedger reads the ledger before any replica is opened. If a node that has
// run before finds none, it creates the ledger from the metadata: every replica
// for which this node counts as in sync existed, unless the opposite can be
// shown.
func (c claimant) openLedger(ranBefore bool) error {
	there, err := c.ledger.load()
	if err != nil || there {
		return err
	}
	var names []string
	add := func(t *meta.Topic) {
		for i := range t.Partitions {
			if ranBefore && !meta.IsEphemeral(t.Name) && slices.Contains(t.Partitions[i].ISR, c.self) {
				names = append(names, ReplicaName(t.Name, t.Incarnation, i))
			}
		}
	}
	for t := range c.state.Topics() {
		add(t)
	}
	for d := range meta.TrashOf(c.state).All() {
		add(d.Topic)
	}
	if len(names) > 0 {
		c.log.Warn("replica ledger missing, recreated from metadata; in-sync replicas without a directory count as lost",
			"path", c.ledger.dir, "replicas", len(names))
	}
	return c.ledger.create(names)
}

// startedBefore reports whether this is not the first start of the node in this
// cluster.
func (c claimant) startedBefore() bool {
	self := c.state.Node(c.self)
	return self != nil && self.Incarnation > 1
}

// count logs, at every start, the data that was moved aside.
func (c claimant) count() (foreign int) {
	names, err := c.dir.FS.ReadDir(c.dir.Root)
	if err != nil {
		return 0
	}
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) {
			foreign++
			c.log.Error("data of another cluster found; kept, not served", "path", filepath.Join(c.dir.Root, name))
		}
	}
	return foreign
}
