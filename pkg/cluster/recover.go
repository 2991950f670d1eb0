package cluster

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Reasons why a data directory cannot be recovered from, or cannot be used after a recovery.
var (
	// ErrNotLost: nothing to recover from: the node is the only member of its cluster. Refused.
	ErrNotLost = fate.Refuse("node is the only member of its cluster: nothing to recover from")
	// ErrRecoveryUnfinished: a recovery of this directory was interrupted, and must be repeated
	// before the node can start. Refused.
	ErrRecoveryUnfinished = fate.Refuse("recovery of this data directory was interrupted: run `brokerd recover` on it again")
	// ErrMetadataThere: the metadata in the directory is readable, and newer than the snapshot.
	// Refused.
	ErrMetadataThere = fate.Refuse("the metadata in the data directory can be read: recover without a snapshot, which is older")
	// ErrSuperseded: the cluster was recovered without this node, whose data belongs to the
	// previous cluster. Refused; the data is unchanged.
	ErrSuperseded = fate.Refuse("cluster was recovered without this node")
)

// markRecovering exists from before the first change of a recovery until after its last one. It
// contains the new cluster id.
const markRecovering = "recovering"

// The directory in which a snapshot is prepared, and the prefix of directories with replaced
// metadata.
const (
	restoredDir = "meta-restored"
	damagedDir  = "meta-damaged"
)

// maxMark limits the size of a mark that is read.
const maxMark = 1 << 10

// recoveryChance is the number of random letters that distinguish two recoveries of one cluster.
const recoveryChance = 8

// RecoverOptions name the data directory of the node that is to continue alone. Self and DataDir
// are required.
type RecoverOptions struct {
	Self    meta.NodeID
	DataDir string
	FS      vfs.FS // for the marks in DataDir; nil: the operating system's
	Logger  *slog.Logger
	// Snapshot is metadata that replaces that of DataDir; nil: use that of DataDir. It is refused
	// if the metadata of DataDir is readable, because that is newer.
	Snapshot *meta.State
	// KeepNewer sets aside the other data of DataDir that the Snapshot does not know; required
	// with a Snapshot. It may be called again.
	KeepNewer func(snapshot *meta.State) error
	// Claim makes the other data in DataDir belong to the new cluster; optional if there is none.
	// It may be called again with the same id.
	Claim func(cluster string) error
}

func (o RecoverOptions) withDefaults() RecoverOptions {
	o.FS = cmp.Or[vfs.FS](o.FS, vfs.OS{})
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Claim == nil {
		o.Claim = func(string) error { return nil }
	}
	return o
}

// Survivor describes the cluster according to a node's data directory.
type Survivor struct {
	*raftstore.Stored
	Self       raftstore.Member
	Others     []raftstore.Member // members that the recovery removes
	Unfinished bool               // a recovery was interrupted
}

// ReadSurvivor reads an unused data directory, and changes nothing.
func ReadSurvivor(o RecoverOptions) (*Survivor, error) {
	o = o.withDefaults()
	return readSurvivor(&o)
}

func readSurvivor(o *RecoverOptions) (*Survivor, error) {
	cluster, err := readMark(o.FS, o.DataDir)
	if err != nil {
		return nil, err
	}
	stored, err := o.read(cluster != "")
	if err != nil {
		return nil, err
	}
	out := &Survivor{Stored: stored, Unfinished: cluster != ""}
	for _, m := range stored.Configuration.Members {
		if m.ID == o.Self {
			out.Self = m
			continue
		}
		out.Others = append(out.Others, m)
	}
	switch {
	case out.Self.ID == "" || stored.State.Node(o.Self) == nil:
		return nil, fmt.Errorf("%w: %s", raftstore.ErrNotMember, o.Self)
	case len(out.Others) == 0 && !out.Unfinished && o.Snapshot == nil:
		return nil, ErrNotLost
	}
	return out, nil
}

// read returns the metadata to recover from.
func (o *RecoverOptions) read(again bool) (*raftstore.Stored, error) {
	stored, err := raftstore.ReadStored(filepath.Join(o.DataDir, metaDir), o.Self)
	switch {
	case o.Snapshot == nil:
		return stored, err
	case err == nil && again: // the snapshot is already in place
		o.Snapshot = nil
		return stored, nil
	case err == nil:
		return nil, ErrMetadataThere
	case errors.Is(err, raftstore.ErrOtherNode):
		return nil, err
	}
	return &raftstore.Stored{State: o.Snapshot, Configuration: raftstore.MembersOf(o.Snapshot), LastIndex: o.Snapshot.Index()}, nil
}

// place replaces the metadata of the directory, which is kept under another name, with the
// recovered snapshot.
func (o *RecoverOptions) place(cluster string) error {
	dir, made := filepath.Join(o.DataDir, metaDir), filepath.Join(o.DataDir, restoredDir)
	if err := os.RemoveAll(made); err != nil { // of an earlier attempt
		return err
	}
	if err := raftstore.Seed(made, o.Self, o.Snapshot, o.Logger); err != nil {
		return err
	}
	if _, err := raftstore.Recover(made, o.Self, cluster, o.Logger); err != nil {
		return err
	}
	aside := filepath.Join(o.DataDir, damagedDir+"-"+strings.ReplaceAll(cluster, ".", "-"))
	if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		return err
	}
	return o.FS.SyncDir(o.DataDir)
}

// readMark returns the new cluster id of an unfinished recovery; "" if there is none.
func readMark(fs vfs.FS, dir string) (string, error) {
	there, err := marks{fs, dir}.has(markRecovering)
	if err != nil || !there {
		return "", err
	}
	text, err := vfs.ReadFile(fs, filepath.Join(dir, markRecovering), maxMark)
	if err != nil {
		return "", fmt.Errorf("read recovery mark: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Recover turns the node of an unused data directory into a single-node cluster with a new
// cluster id, which it returns. Data that only the other members had is lost to the cluster,
// and they can never rejoin with their data. If it fails, the node does not start until it is
// called again.
func Recover(o RecoverOptions) (cluster string, err error) {
	o = o.withDefaults()
	s, err := readSurvivor(&o)
	if err != nil {
		return "", err
	}
	if cluster, err = readMark(o.FS, o.DataDir); err != nil {
		return "", err
	}
	if cluster == "" {
		cluster = meta.RecoveredID(s.State.Cluster().ID, rand.Text()[:recoveryChance])
		if err := vfs.WriteFileSynced(o.FS, filepath.Join(o.DataDir, markRecovering), []byte(cluster+"\n")); err != nil {
			return "", fmt.Errorf("mark the data directory: %w", err)
		}
	}
	if o.Snapshot != nil {
		if err = o.KeepNewer(o.Snapshot); err != nil {
			return "", fmt.Errorf("keep what is not in the snapshot: %w", err)
		}
		err = o.place(cluster)
	} else {
		_, err = raftstore.Recover(filepath.Join(o.DataDir, metaDir), o.Self, cluster, o.Logger)
	}
	if err != nil {
		return "", err
	}
	if err := o.Claim(cluster); err != nil {
		return "", err
	}
	return cluster, marks{o.FS, o.DataDir}.clear(markRecovering)
}
