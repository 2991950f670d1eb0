package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

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
	if kept := d.keptJournals(); len(kept) > 0 {
		log.Error("redo journal was kept because a file of a replica lacks its writes; delete it when the replica was repaired",
			"paths", kept)
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

// keptJournals returns the journals that this or an earlier start has kept.
func (d Dir) keptJournals() (paths []string) {
	names, _ := d.FS.ReadDir(d.Redo())
	for _, name := range names {
		if redo.IsKept(name) {
			paths = append(paths, filepath.Join(d.Redo(), name))
		}
	}
	return paths
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
	below, found := strings.CutPrefix(path, d.Topics()+string(filepath.Separator))
	names := strings.SplitN(below, string(filepath.Separator), 3)
	if !found || len(names) < 3 {
		return failed
	}
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
