package broker

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// openRedo has all that this node keeps go through a redo journal, so that many logs
// are synced together. What the journal holds from before is written again first: nothing
// may be read before.
func openRedo(o *Options) (*redo.FS, error) {
	dirs := layout{o.DataDir}
	ro := o.Redo
	ro.Root, ro.Dir = o.DataDir, dirs.redo()
	ro.Damaged = func() error { return suspectAll(o.FS, dirs) }
	ro.Failed = func(err error) {
		if o.Fatal != nil {
			o.Fatal(err)
		}
	}
	journaled, report, err := redo.Open(o.FS, ro)
	if err != nil {
		return nil, err
	}
	if report.Records > 0 {
		o.Logger.Info("redo journal replayed", "records", report.Records, "files", report.Files, "bytes", report.Bytes)
	}
	if report.Damaged {
		o.Logger.Error("redo journal is corrupt; replicas on this node may lack recently acknowledged messages and are reconciled with their leaders before they count as in sync",
			"path", ro.Dir)
	}
	o.FS = journaled
	return journaled, nil
}

// ReplayRedo writes into the files of a node that does not run what its redo journal holds
// of them. Programs that read or change these files call it first.
func ReplayRedo(fsys vfs.FS, dataDir string) error {
	o := Options{FS: fsys, DataDir: dataDir, Logger: slog.New(slog.DiscardHandler)}
	journaled, err := openRedo(&o)
	if err != nil {
		return err
	}
	return journaled.Close()
}

// suspectAll makes it durable that every replica of a node may lack what it acknowledged
// last.
func suspectAll(fsys vfs.FS, dirs layout) error {
	topics, err := fsys.ReadDir(dirs.topics())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, topic := range topics {
		dir := filepath.Join(dirs.topics(), topic)
		partitions, err := fsys.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, partition := range partitions {
			mark := filepath.Join(dir, partition, markSuspect)
			if err := vfs.WriteFileSynced(fsys, mark, []byte(`"the redo journal was damaged"`)); err != nil {
				return err
			}
		}
	}
	return nil
}
