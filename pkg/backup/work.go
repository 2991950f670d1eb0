package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Work is a backup that is being written. It is not for concurrent use. Either Complete or Abandon
// ends it.
type Work struct {
	r     *Repository
	id    string
	lease *lease
	has   map[digest]int64 // the stored chunks
}

// Begin begins a backup: from now on it is listed as incomplete. While backups are deleted, the
// error is ErrBusy.
func (r *Repository) Begin(ctx context.Context, id string) (*Work, error) {
	for _, name := range []string{manifestName(id), partialName(id)} {
		if there, err := r.exists(ctx, name); err != nil {
			return nil, err
		} else if there {
			return nil, fmt.Errorf("backup %s: %w", id, fs.ErrExist)
		}
	}
	l, err := r.take(ctx, partialName(id))
	if err != nil {
		return nil, err
	}
	w := &Work{r: r, id: id, lease: l}
	if err := w.prepare(ctx); err != nil {
		_ = w.Abandon(ctx) // otherwise it is listed as incomplete
		return nil, err
	}
	return w, nil
}

// prepare looks for deletions and reads which chunks are stored, after the marker is stored:
// chunks that are there now stay, see Repository.remove.
func (w *Work) prepare(ctx context.Context) error {
	if err := w.r.noDeletion(ctx); err != nil {
		return err
	}
	w.has = map[digest]int64{}
	for o, err := range w.r.listChunks(ctx) {
		if err != nil {
			return fmt.Errorf("list chunks: %w", err)
		}
		w.has[o.sum] = o.Bytes
	}
	return nil
}

// noDeletion returns ErrBusy while backups are deleted.
func (r *Repository) noDeletion(ctx context.Context) error {
	names, err := r.names(ctx)
	if err != nil {
		return err
	}
	for _, o := range names.deleting {
		if r.fresh(ctx, o) {
			return fmt.Errorf("%w: backups are being deleted since %s, or a deletion was interrupted then; repeat the command in up to %d minutes",
				ErrBusy, idOf(o), int(leaseEnds.Minutes()))
		}
	}
	return nil
}

// Has reports whether the repository had a chunk when the backup began, or has it since.
func (w *Work) Has(c *Chunk) bool {
	sum, ok := parseDigest(c.SHA256)
	size, there := w.has[sum]
	return ok && there && size == c.Bytes
}

// KeepAlive tells other processes that the backup is in progress. It must be called every few
// minutes: after half an hour without a call the backup fails.
func (w *Work) KeepAlive(ctx context.Context) error { return w.lease.renew(ctx) }

// Abandon ends the backup without a result. The stored chunks stay, for the next backup.
func (w *Work) Abandon(ctx context.Context) error { return w.lease.release(ctx) }

// Complete makes the backup, whose chunks are stored, a complete one. If the error's fate is not
// refused, it may be complete nevertheless.
func (w *Work) Complete(ctx context.Context, m *Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	if len(data) > maxManifestBytes {
		return fate.Mark(fmt.Errorf("manifest of %d bytes exceeds %d; back up fewer topics at a time", len(data), maxManifestBytes), fate.Refused)
	}
	if err := w.holds(ctx); err != nil {
		return fate.Mark(err, fate.Refused)
	}
	if err := w.r.put(ctx, manifestName(m.ID), data); err != nil {
		return w.settle(ctx, fmt.Errorf("store manifest: %w", err))
	}
	// Storing it may have taken so long that a deletion removed its chunks.
	if err := w.holds(ctx); errors.Is(err, errLapsed) {
		if gone := w.r.store.Remove(ctx, manifestName(m.ID)); gone != nil {
			return fate.Mark(fmt.Errorf("%w; delete backup %s, of which chunks may be missing: %w", err, m.ID, gone), fate.Uncertain)
		}
		return err
	}
	_ = w.lease.release(ctx) // a marker beside its manifest is ignored
	return nil
}

// holds returns errLapsed if others may have removed the marker of the backup.
func (w *Work) holds(ctx context.Context) error {
	mine, err := w.r.exists(ctx, w.lease.name)
	if err == nil && !mine {
		return errLapsed
	}
	return cmp.Or(err, w.lease.check())
}

// settle finds out what became of a manifest whose storing failed: the answer may be lost.
func (w *Work) settle(ctx context.Context, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	switch there, err := w.r.exists(ctx, manifestName(w.id)); {
	case err != nil:
		return fate.Mark(failed, fate.Uncertain)
	case !there:
		return fate.Mark(failed, fate.Refused)
	}
	_ = w.lease.release(ctx) // likewise
	return nil
}
