package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Limits of the files that the audit log is written to.
const (
	auditFileBytes = 16 << 20 // a larger one is renamed
	auditFilesKept = 8        // of those that were renamed
	auditRetry     = 10 * time.Second
)

// auditFile writes the acts of the audit log to a file: what the metadata keeps is bounded. The acts in the file have
// growing indexes; its last line says where to continue.
type auditFile struct {
	path       string
	log        *slog.Logger
	complaints complaint.Book
	known      bool   // last is
	last       uint64 // index of the last act that was written
}

// run writes until ctx ends.
func (f *auditFile) run(ctx context.Context, store *raftstore.Store) {
	for {
		changed := store.Changed()
		var retry <-chan time.Time // an attempt for each change would be too many
		if err := f.write(meta.JournalOf(store.View()).Acts()); err != nil {
			f.complaints.Warn(f.log, time.Now(), "cannot write the audit file; acts that leave the audit log until then are missing in it: check the path of audit-file and its disk",
				"path", f.path, "error", err, "retry_in", auditRetry)
			changed, retry = nil, time.After(auditRetry)
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// write appends the acts that are not in the file yet.
func (f *auditFile) write(acts []*meta.Act) error {
	if !f.known {
		last, err := f.resume()
		if err != nil {
			return err
		}
		f.last, f.known = last, true
	}
	var lines bytes.Buffer
	last := f.last
	for _, a := range acts {
		if a.Index <= f.last {
			continue
		}
		if err := json.NewEncoder(&lines).Encode(v1.ActOf(a)); err != nil {
			return err
		}
		last = a.Index
	}
	if lines.Len() == 0 {
		return nil
	}
	f.known = false // what a failed write leaves is not known
	if err := f.append(lines.Bytes()); err != nil {
		return err
	}
	f.last, f.known = last, true
	return nil
}

// append appends lines to the file, and renames it first if it is large.
func (f *auditFile) append(lines []byte) error {
	if info, err := os.Stat(f.path); err == nil && info.Size() >= auditFileBytes {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(lines)
	return errors.Join(err, out.Sync(), out.Close())
}

// rotate makes room for a new file.
func (f *auditFile) rotate() error {
	for i := auditFilesKept; i > 0; i-- {
		if err := os.Rename(f.numbered(i-1), f.numbered(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// numbered returns the path of the i-th last file; 0 is the current one.
func (f *auditFile) numbered(i int) string {
	if i == 0 {
		return f.path
	}
	return fmt.Sprintf("%s.%d", f.path, i)
}

// resume returns the index of the last act in the file, or in the one before. It removes a line that a crash or a full
// disk has left incomplete.
func (f *auditFile) resume() (uint64, error) {
	for i := range 2 {
		file, err := os.OpenFile(f.numbered(i), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		last, err := lastAct(file)
		if err = errors.Join(err, file.Close()); err != nil || last > 0 {
			return last, err
		}
	}
	return 0, nil
}

// maxActLine is more than the longest line of an act.
const maxActLine = 128 << 10

// lastAct returns the index of the last act in a file; 0: there is none. It cuts an incomplete line off.
func lastAct(file *os.File) (uint64, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	tail := make([]byte, min(size, 2*maxActLine))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole < len(tail) {
		if err := file.Truncate(size - int64(len(tail)-whole)); err != nil {
			return 0, err
		}
	}
	if whole == 0 {
		return 0, nil
	}
	line := tail[bytes.LastIndexByte(tail[:whole-1], '\n')+1 : whole]
	var act api.Act
	if err := jsonbytes.Unmarshal(line, &act); err != nil {
		return 0, fmt.Errorf("%s has a last line that is no act: name another file: %w", file.Name(), err)
	}
	return act.Index, nil
}
