package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Journaled writes all files of a node through a redo journal, so that many logs are synced
// together, and returns the directory with that file system. It first replays the journal of the
// previous run: no file may be read before. With many replicas, one call syncs the whole file
// system. Journaled sets the directories in o itself; failed is called once when the journal cannot
// continue. The caller closes the journal last. The report says what was found.
func (d Dir) Journaled(o redo.Options, log *slog.Logger, failed func(error)) (Dir, *redo.FS, redo.Report, error) {
	o.Root, o.Dir, o.Failed = d.Root, d.Redo(), failed
	o.Damaged = d.suspectAll
	if o.Unwritable == nil {
		o.Unwritable = func(path string, err error) error { return d.suspectOwner(path, err, log) }
	}
	if o.Compare == nil {
		o.Compare = d.isSegment
	}
	if d.onOneDisk() {
		replicas, err := d.FS.ReadDir(d.replicas())
		o.SyncAll = o.SyncAll || err == nil && len(replicas) >= syncAllFrom
		o.VolumeFrom = cmp.Or(o.VolumeFrom, syncAllFrom)
	} else {
		o.SyncAll, o.VolumeFrom = false, 0
	}
	journaled, report, err := redo.Open(d.FS, o)
	if err != nil {
		return d, nil, report, err
	}
	if report.NotAtOnce != nil {
		log.Warn("syncfs failed on the data directory; files are synced one by one, which slows the start",
			"path", d.Root, "error", report.NotAtOnce)
	}
	if report.Records > 0 {
		log.Info("redo journal replayed", "records", report.Records, "files", report.Files, "bytes", report.Bytes)
	}
	if report.Damaged {
		log.Error("redo journal is corrupt; replicas on this node may lack recently acknowledged messages and are reconciled with their leaders before they count as in sync",
			"path", o.Dir)
	}
	if len(report.Dropped) > 0 {
		log.Info("kept redo journal removed: the logs have what it holds", "paths", report.Dropped)
	}
	for _, lack := range report.Lacks {
		d.logLack(log, lack, report.Kept)
	}
	d.FS = journaled
	return d, journaled, report, nil
}

// syncAllFrom is the number of replicas from which on a start syncs the whole file system with one
// call, which also waits for the writes of other programs, and the number of files from which on the
// redo journal does. Fewer are synced one by one.
const syncAllFrom = 64

// onOneDisk reports whether all topics are in the file system of the directory itself. An operator may
// have mounted another one, or linked to it; that one is synced file by file.
func (d Dir) onOneDisk() bool {
	topics, err := d.FS.ReadDir(d.Topics())
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	root, failed := d.FS.Stat(d.Root)
	if err != nil || failed != nil {
		return false
	}
	for _, name := range append(topics, "") { // "": the directory of the topics itself
		other, err := d.FS.Stat(filepath.Join(d.Topics(), name))
		if err != nil || !sameDevice(root, other) {
			return false
		}
	}
	return true
}

// sameDevice reports whether two files are known to be in one file system. Files outside the operating
// system's file system always are.
func sameDevice(a, b fs.FileInfo) bool {
	x, known := a.Sys().(*syscall.Stat_t)
	y, also := b.Sys().(*syscall.Stat_t)
	return known == also && (!known || x.Dev == y.Dev)
}

// Replay replays the redo journal of a node that does not run. Programs that read or
// change the node's files call it first. Unlike the node, they need all files.
func (d Dir) Replay() error {
	all := redo.Options{Unwritable: func(_ string, err error) error { return err }}
	_, journaled, _, err := d.Journaled(all, slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		return err
	}
	return journaled.Close()
}

// isSegment reports whether a file has messages of a replica, and is compared with a kept journal. Other
// files of a replica are written again from the start, and do not need their old content.
func (d Dir) isSegment(path string) bool {
	return d.partitionOf(path) != "" && filepath.Ext(path) == segmenthead.Suffix
}

// partitionOf returns TOPIC/PARTITION for a file of a replica, and "" for others.
func (d Dir) partitionOf(path string) string {
	below, found := strings.CutPrefix(path, d.Topics()+string(filepath.Separator))
	names := strings.SplitN(below, string(filepath.Separator), 3)
	if !found || len(names) < 3 {
		return ""
	}
	topic := names[0]
	if i := strings.LastIndexByte(topic, '.'); i > 0 {
		topic = topic[:i]
	}
	return topic + "/" + names[1]
}

// logLack logs that a segment may lack what kept journals hold.
func (d Dir) logLack(log *slog.Logger, lack redo.Lack, kept []string) {
	partition := d.partitionOf(lack.Path)
	log = log.With("path", lack.Path, "journals", kept)
	switch {
	case partition == "":
		log.Error("cannot use kept redo journal: acknowledged messages may be only in it; delete it if other replicas have them", "error", lack.Err)
	case lack.Err != nil:
		log.Error("cannot compare the log of a partition with the kept redo journal: acknowledged messages may be only in the journal; delete it if other replicas have them",
			"partition", partition, "error", lack.Err)
	default:
		log.Error("kept redo journal holds messages that the log of a partition lacks or has dropped: delete it if other replicas have them, or if they are not needed",
			"partition", partition, "from_position", lack.From)
	}
}

// KeptReasons reports the partitions that may lack what kept journals hold, as a start has found.
func (d Dir) KeptReasons(lacks []redo.Lack) []health.Reason {
	if len(lacks) == 0 {
		return nil
	}
	if there, err := d.FS.ReadDir(d.Redo()); err == nil && !slices.ContainsFunc(there, redo.IsKept) {
		return nil // somebody has deleted them since
	}
	var names []string
	for _, lack := range lacks {
		name := d.partitionOf(lack.Path)
		if name == "" {
			name = "unknown partitions in redo/" + filepath.Base(lack.Path)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return []health.Reason{{Code: "redo_journal_kept", Count: len(names), What: "redo/journal-*.kept-* hold messages that were acknowledged " +
		"and that the logs of these partitions may lack: " + health.Names(names)}}
}

// suspectAll durably marks every replica of a node as suspect: it may lack what it
// acknowledged last.
func (d Dir) suspectAll() error {
	return d.eachReplica(func(replica string) error { return d.suspect(replica, "redo journal corrupt") })
}

// eachReplica calls f with the directory of each replica of a node, until it fails. Entries that are not
// directories are not replicas.
func (d Dir) eachReplica(f func(replica string) error) error {
	topics, err := d.directoriesIn(d.Topics())
	if err != nil {
		return err
	}
	for _, topic := range topics {
		replicas, err := d.directoriesIn(topic)
		if err != nil {
			return err
		}
		for _, replica := range replicas {
			if err := f(replica); err != nil {
				return err
			}
		}
	}
	return nil
}

// suspectOwner durably marks the replica as suspect whose file lacks its last synced writes. A file of
// anything else is needed for the node to start: then it returns the error that the file failed with.
func (d Dir) suspectOwner(path string, failed error, log *slog.Logger) error {
	if d.partitionOf(path) == "" {
		return failed
	}
	names := strings.SplitN(strings.TrimPrefix(path, d.Topics()+string(filepath.Separator)), string(filepath.Separator), 3)
	replica := filepath.Join(d.Topics(), names[0], names[1])
	log.Error("cannot replay redo journal to a file of a replica, which may lack recently acknowledged messages; it is reconciled with its leader before it counts as in sync",
		"path", path, "error", failed)
	if err := d.suspect(replica, "redo journal not replayed: "+failed.Error()); err != nil {
		return errors.Join(failed, err)
	}
	return nil
}

// suspect durably marks a replica as suspect, and says why.
func (d Dir) suspect(replica, why string) error {
	text, err := json.Marshal(why)
	if err != nil {
		return err
	}
	return vfs.WriteFileSynced(d.FS, filepath.Join(replica, MarkSuspect), text)
}

// directoriesIn returns the paths of the subdirectories of a directory, which need
// not exist.
func (d Dir) directoriesIn(dir string) (paths []string, err error) {
	names, err := d.FS.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := d.FS.Stat(path)
		switch {
		case err == nil && info.IsDir():
			paths = append(paths, path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return paths, nil
}
