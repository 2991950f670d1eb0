package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
)

// removedTogether is how many chunks are removed at a time.
const removedTogether = 8

// Deleted is the result of a deletion.
type Deleted struct {
	Backups     []string `json:"deleted"`
	Interrupted []string `json:"interrupted"` // incomplete backups, which were deleted as well
	Kept        []string `json:"kept"`
	Chunks      int      `json:"chunks"` // that no backup used any more
	Bytes       int64    `json:"bytes"`  // of the chunks
	DryRun      bool     `json:"dry_run"`
}

// Delete deletes backups, and the chunks that no other backup uses. The error is ErrNoBackup if one
// does not exist, and ErrBusy while another backup is made or one is restored; nothing is deleted
// then. A backup that is being made and is deleted by its id fails. A deletion that was interrupted
// is completed by the next one.
func (r *Repository) Delete(ctx context.Context, ids []string, dry bool) (*Deleted, error) {
	return r.remove(ctx, dry, ids, func(names listing) ([]string, error) {
		for _, id := range ids {
			if !slices.Contains(names.complete, id) && !slices.ContainsFunc(names.partial, func(o Object) bool { return idOf(o) == id }) {
				return nil, fmt.Errorf("%s: %w", id, ErrNoBackup)
			}
		}
		return ids, nil
	})
}

// Prune deletes all but the latest complete backups of each cluster, as Delete does.
func (r *Repository) Prune(ctx context.Context, keep int, dry bool) (*Deleted, error) {
	return r.remove(ctx, dry, nil, func(names listing) (ids []string, err error) {
		kept := map[string]int{} // by cluster
		for _, id := range slices.Backward(names.complete) {
			m, err := r.needed(ctx, id)
			if err != nil {
				return nil, err
			}
			if kept[m.Cluster]++; kept[m.Cluster] > keep {
				ids = append(ids, id)
			}
		}
		slices.Reverse(ids)
		return ids, nil
	})
}

// needed loads the manifest of a backup whose chunks must be known.
func (r *Repository) needed(ctx context.Context, id string) (*Manifest, error) {
	m, err := r.Load(ctx, id)
	if err != nil && readable(err) {
		return nil, fmt.Errorf("which chunks it uses is unknown, and nothing was deleted; delete this backup by its id first: %w", err)
	}
	return m, err
}

// remove deletes the chosen backups. The order matters: manifests are deleted before their chunks,
// so that an interrupted deletion leaves no backup without its chunks, and a backup that begins
// looks for the marker of a deletion after it has stored its own, as the deletion does. So at least
// one of the two sees the other.
func (r *Repository) remove(ctx context.Context, dry bool, named []string, choose func(listing) ([]string, error)) (_ *Deleted, err error) {
	names, err := r.idle(ctx, named)
	if err != nil {
		return nil, err
	}
	if len(names.complete)+len(names.partial)+len(names.deleting) == 0 {
		return nil, fmt.Errorf("%s holds no backups: %w", r, ErrNoBackup)
	}
	var mine *lease
	if !dry {
		if mine, err = r.take(ctx, deletingName(r.now())); err != nil {
			return nil, err
		}
		defer func() {
			if gone := mine.release(ctx); err == nil && gone != nil {
				err = fmt.Errorf("remove %s: %w; backups are refused for up to an hour", mine.name, gone)
			}
		}()
		if names, err = r.idle(ctx, named); err != nil { // a backup may have begun since
			return nil, err
		}
	}
	ids, err := choose(names)
	if err != nil {
		return nil, err
	}
	d := &Deleted{Backups: []string{}, Interrupted: []string{}, Kept: []string{}, DryRun: dry}
	used, err := r.used(ctx, names, ids, d)
	if err != nil {
		return nil, err
	}
	if !dry {
		if err := r.removeManifests(ctx, names, d); err != nil {
			return d, err
		}
	}
	switch err := r.removeChunks(ctx, mine, used, d); {
	case dry && err != nil:
		return nil, err
	case dry || err != nil:
		return d, err
	}
	if err := r.store.Tidy(ctx, r.now().Add(-leaseEnds)); err != nil {
		return d, fmt.Errorf("remove the remains of interrupted writes: %w", err)
	}
	return d, nil
}

// idle lists the repository. While a backup is made that is not named, or one is restored, the error is
// ErrBusy.
func (r *Repository) idle(ctx context.Context, named []string) (listing, error) {
	names, err := r.names(ctx)
	if err != nil {
		return names, err
	}
	for _, o := range names.partial {
		if !slices.Contains(named, idOf(o)) && r.fresh(ctx, o) {
			return names, fmt.Errorf("%w: backup %s is in progress, or was interrupted after %s on another machine; nothing was deleted. If it has ended, delete it by its id, or repeat the command in up to %d minutes",
				ErrBusy, idOf(o), o.Modified.UTC().Format(time.RFC3339), int(leaseEnds.Minutes()))
		}
	}
	for _, o := range names.reading {
		if r.fresh(ctx, o) {
			return names, fmt.Errorf("%w: a restore is in progress since %s, or was interrupted on another machine; nothing was deleted, repeat the command when it has ended, or in up to %d minutes",
				ErrBusy, idOf(o), int(leaseEnds.Minutes()))
		}
	}
	return names, nil
}

// idForm is the form of the id of a backup: the time at which it began, in UTC.
const idForm = "20060102T150405.000Z"

// ID returns the id of a backup that begins at a time.
func ID(t time.Time) string { return t.UTC().Format(idForm) }

// used returns the chunks of the backups that stay.
func (r *Repository) used(ctx context.Context, names listing, ids []string, d *Deleted) (map[digest]bool, error) {
	used := map[digest]bool{}
	for _, id := range names.complete {
		if slices.Contains(ids, id) {
			d.Backups = append(d.Backups, id)
			continue
		}
		m, err := r.needed(ctx, id)
		if err != nil {
			return nil, err
		}
		d.Kept = append(d.Kept, id)
		for _, c := range m.chunks() {
			if sum, ok := parseDigest(c.SHA256); ok {
				used[sum] = true
			}
		}
	}
	for _, o := range names.partial {
		d.Interrupted = append(d.Interrupted, idOf(o))
	}
	return used, nil
}

// removeManifests deletes backups, and the markers of commands that were interrupted. After an error d
// has the backups that were deleted.
func (r *Repository) removeManifests(ctx context.Context, names listing, d *Deleted) error {
	for i, id := range d.Backups {
		if err := r.store.Remove(ctx, manifestName(id)); err != nil {
			d.Backups, d.Interrupted = d.Backups[:i], []string{}
			return fmt.Errorf("remove %s: %w", manifestName(id), err)
		}
	}
	var gone []string
	for _, id := range d.Interrupted {
		gone = append(gone, partialName(id))
	}
	for _, o := range names.spent {
		gone = append(gone, o.Name)
	}
	for _, o := range slices.Concat(names.deleting, names.reading) {
		if !r.fresh(ctx, o) {
			gone = append(gone, o.Name)
		}
	}
	for _, name := range gone {
		if err := r.store.Remove(ctx, name); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// removeChunks removes the chunks that are not used. With a nil lease it only counts them.
func (r *Repository) removeChunks(ctx context.Context, mine *lease, used map[digest]bool, d *Deleted) error {
	var gone []Object
	flush := func() error {
		if mine == nil {
			gone = gone[:0]
			return nil
		}
		if err := mine.renew(ctx); err != nil {
			return err
		}
		err := fan.Join(len(gone), removedTogether, func(i int) error {
			if err := mine.check(); err != nil {
				return err
			}
			return r.store.Remove(ctx, gone[i].Name)
		})
		gone = gone[:0]
		return err
	}
	for o, err := range r.listChunks(ctx) {
		if err != nil {
			return fmt.Errorf("list chunks: %w", err)
		}
		if used[o.sum] {
			continue
		}
		d.Chunks++
		d.Bytes += o.Bytes
		if gone = append(gone, o.Object); len(gone) == 1000 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
