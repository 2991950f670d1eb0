package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

// maxManifestBytes is the largest manifest that is read.
const maxManifestBytes = 1 << 30

const (
	backupsDir = "backups"
	chunksDir  = "chunks"
	whole      = ".json"
	partial    = ".partial"
	deleting   = ".deleting"
	reading    = ".reading"
	chunkEnd   = ".gz"
)

// Directories returns the first parts of the names of all objects.
func Directories() []string { return []string{backupsDir, chunksDir} }

// Refusals. Each is marked fate.Refused.
var (
	ErrNoBackup   = fate.Refuse("no such backup")
	ErrIncomplete = fate.Refuse("backup is incomplete: it was interrupted or is still running")
	ErrBusy       = fate.Refuse("the backups are in use")
)

// Repository is a set of backups in a store. Its methods may be called concurrently, by several
// processes.
type Repository struct {
	store Store
	now   func() time.Time
}

// In returns the repository in a store.
func In(s Store) *Repository { return &Repository{s, time.Now} }

// String returns the location of the store.
func (r *Repository) String() string { return r.store.String() }

// Listed is a backup in a repository. Err is the reason why its manifest cannot be read.
type Listed struct {
	ID       string
	Complete bool
	Manifest *Manifest // nil: it is incomplete, or cannot be read
	Err      error
}

// List returns the backups, the oldest first. Without one, the error is ErrNoBackup.
func (r *Repository) List(ctx context.Context) ([]Listed, error) {
	names, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, id := range names.complete {
		m, err := r.Load(ctx, id)
		switch {
		case errors.Is(err, ErrNoBackup): // deleted meanwhile
			continue
		case err != nil && !readable(err):
			return nil, err
		}
		all = append(all, Listed{id, true, m, err})
	}
	for _, o := range names.partial {
		all = append(all, Listed{ID: idOf(o)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no backups: %w", r, ErrNoBackup)
	}
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// readable reports whether an error is about the content of a manifest, and not about access to it.
func readable(err error) bool {
	return fate.Of(err) == fate.Corrupt || errors.Is(err, ErrNewerFormat)
}

// listing is the names in a repository.
type listing struct {
	complete []string // ids, in order
	partial  []Object // without those that are complete
	spent    []Object // markers beside their manifests: the last step was interrupted
	deleting []Object
	reading  []Object
}

// idOf returns the id in the name of an object.
func idOf(o Object) string {
	return strings.TrimSuffix(path.Base(o.Name), path.Ext(o.Name))
}

func (r *Repository) names(ctx context.Context) (l listing, err error) {
	for o, err := range r.store.List(ctx, backupsDir+"/") {
		if err != nil {
			return l, fmt.Errorf("list backups: %w", err)
		}
		if path.Dir(o.Name) != backupsDir { // of another repository, whose prefix begins alike
			continue
		}
		switch path.Ext(o.Name) {
		case whole:
			l.complete = append(l.complete, idOf(o))
		case partial:
			l.partial = append(l.partial, o)
		case deleting:
			l.deleting = append(l.deleting, o)
		case reading:
			l.reading = append(l.reading, o)
		}
	}
	slices.Sort(l.complete)
	l.partial = slices.DeleteFunc(l.partial, func(o Object) bool {
		_, done := slices.BinarySearch(l.complete, idOf(o))
		if done {
			l.spent = append(l.spent, o)
		}
		return done
	})
	return l, nil
}

// Load returns the manifest of a backup; "": of the latest that is complete.
func (r *Repository) Load(ctx context.Context, id string) (*Manifest, error) {
	if id == "" {
		names, err := r.names(ctx)
		if err != nil {
			return nil, err
		}
		if len(names.complete) > 0 {
			return r.Load(ctx, names.complete[len(names.complete)-1])
		}
		if len(names.partial) > 0 {
			return nil, fmt.Errorf("%s holds no complete backup: %w", r, ErrNoBackup)
		}
		return nil, fmt.Errorf("%s holds no backups: %w", r, ErrNoBackup)
	}
	if id != path.Base(id) {
		return nil, fmt.Errorf("%q: %w", id, ErrNoBackup)
	}
	data, err := r.read(ctx, manifestName(id))
	if errors.Is(err, fs.ErrNotExist) {
		if begun, err := r.exists(ctx, partialName(id)); err != nil {
			return nil, err
		} else if begun {
			return nil, fmt.Errorf("%s: %w", id, ErrIncomplete)
		}
		return nil, fmt.Errorf("%s: %w", id, ErrNoBackup)
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest of backup %s: %w", id, err)
	}
	m, err := decodeManifest(data)
	if err == nil && m.ID != id {
		err = corrupt("the manifest belongs to backup %s", m.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", id, err)
	}
	return m, nil
}

// read returns the content of a small object.
func (r *Repository) read(ctx context.Context, name string) ([]byte, error) {
	f, err := r.store.Open(ctx, name, maxManifestBytes)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	return data, errors.Join(err, f.Close())
}

// put stores a small object.
func (r *Repository) put(ctx context.Context, name string, content []byte) error {
	d, err := r.store.Draft()
	if err != nil {
		return err
	}
	if _, err := d.Write(content); err != nil {
		return errors.Join(err, d.Discard())
	}
	return d.Commit(ctx, name)
}

// exists reports whether there is an object of a name.
func (r *Repository) exists(ctx context.Context, name string) (bool, error) {
	for o, err := range r.store.List(ctx, name) {
		if err != nil || o.Name == name {
			return err == nil, err
		}
	}
	return false, nil
}

// chunkObject is a stored chunk.
type chunkObject struct {
	Object
	sum digest
}

// listChunks returns the stored chunks. Objects with other names are left out.
func (r *Repository) listChunks(ctx context.Context) iter.Seq2[chunkObject, error] {
	return func(yield func(chunkObject, error) bool) {
		for o, err := range r.store.List(ctx, chunksDir+"/") {
			sum, ok := parseDigest(strings.TrimSuffix(path.Base(o.Name), chunkEnd))
			if err == nil && (!ok || o.Name != chunkName(sum.String())) {
				continue
			}
			if !yield(chunkObject{o, sum}, err) || err != nil {
				return
			}
		}
	}
}

func manifestName(id string) string   { return backupsDir + "/" + id + whole }
func partialName(id string) string    { return backupsDir + "/" + id + partial }
func deletingName(t time.Time) string { return backupsDir + "/" + ID(t) + deleting }
func readingName(t time.Time) string  { return backupsDir + "/" + ID(t) + reading }
func chunkName(sum string) string     { return chunksDir + "/" + path.Base(sum) + chunkEnd }
