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
	if o.Retry == nil {
		o.Retry = d.isSegment
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
	for _, journal := range report.Retried {
		log.Info("kept redo journal replayed to the files that lacked its writes, or that have them by now, and removed", "path", journal)
	}
	for _, k := range report.Unfit {
		logUnfit(log, d.partitionOf(k.Path), k)
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
	same := err == nil && vfs.SameDisk(d.FS, d.Root, d.Topics())
	for _, name := range topics {
		same = same && vfs.SameDisk(d.FS, d.Root, filepath.Join(d.Topics(), name))
	}
	return same
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

// isSegment reports whether a file has messages of a replica: a kept journal is replayed to it later,
// if that fits. Other files of a replica are written again as a whole, and have no use for what they had.
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

// logUnfit logs that a segment lacks what a kept journal has.
func logUnfit(log *slog.Logger, partition string, k redo.Kept) {
	log = log.With("partition", partition, "path", k.Path, "from_position", k.From, "journal", k.Journal)
	if k.Err != nil {
		log.Error("cannot write messages from a kept redo journal to the log of a partition, which lacks them; the next start tries again", "error", k.Err)
		return
	}
	log.Error("kept redo journal has messages that the log of a partition does not have at their place: it continued without them; " +
		"delete the journal if other replicas had them, or if they are not needed")
}

// KeptReasons reports the partitions for which a start has kept journals that are still there: messages
// that were acknowledged may be only in them.
func (d Dir) KeptReasons(unfit []redo.Kept) []health.Reason {
	var names []string
	for _, k := range unfit {
		if _, err := d.FS.Stat(k.Journal); err != nil {
			continue
		}
		why := "the log continued without them"
		if k.Err != nil {
			why = "the log cannot be written"
		}
		names = append(names, d.partitionOf(k.Path)+" in redo/"+filepath.Base(k.Journal)+" ("+why+")")
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []health.Reason{{Code: "redo_journal_kept", Count: len(names), What: "messages that the redo journal held could not be replayed, " +
		"and may be lost if no other replica has them: " + health.Names(names)}}
}

// suspectAll durably marks every replica of a node as suspect: it may lack what it
// acknowledged last. Entries that are not directories are not replicas.
func (d Dir) suspectAll() error {
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
			if err := d.suspect(replica, "redo journal corrupt"); err != nil {
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
