// Package bundle writes the state of a cluster and its nodes to one archive for later diagnosis.
//
// Each file of the archive is the answer to one request. A failed request leaves an error in the
// archive and affects nothing else, because bundles are taken when something is broken. Files and
// archive are bounded; index.json lists the contents, and what is truncated or missing.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of an archive, in bytes before compression.
type Limits struct {
	File  int // the rest is truncated
	Total int // later files are omitted
}

// DefaultLimits are 32 MiB a file and 512 MiB in total.
var DefaultLimits = Limits{File: 32 << 20, Total: 512 << 20}

// Head describes an archive.
type Head struct {
	Root    string // the directory of the files
	Program string // the program that creates it
	Made    time.Time
	// Silent, if set, is called when a question to a source has timed out. Several goroutines may call
	// it at a time.
	Silent func(source string)
}

// Question is one file of the archive, and how to get it.
type Question struct {
	Name string // of the file, with slashes
	// Ask returns up to max bytes of the file, and whether there were more.
	Ask func(ctx context.Context, max int) (content []byte, more bool, err error)
	// Runs is how long the node works on the answer, such as the length of a profile.
	Runs time.Duration
	// Timeout is how long the answer may take beyond that.
	Timeout time.Duration
}

// shortTimeout is the time limit for further answers of a source once it has let a question time
// out: the sources that respond should not wait for it any longer.
const shortTimeout = time.Second

// Source is a list of questions to one node, or to the cluster, which are asked one at a time.
// Sources are asked concurrently.
type Source struct {
	Name      string
	Questions []Question
}

// File is a file's entry in index.json.
type File struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Cut   bool   `json:"cut,omitempty"`   // it was longer
	Error string `json:"error,omitempty"` // why it is missing
}

// Index is index.json.
type Index struct {
	Made     time.Time `json:"made"`
	Program  string    `json:"program"`
	Sources  []string  `json:"sources"`
	Files    []File    `json:"files"`
	Failures int       `json:"failures"` // missing files
}

// archive is the archive being written.
type archive struct {
	head   Head
	limits Limits

	mu    sync.Mutex // guards the fields below
	tar   *tar.Writer
	total int
	index Index
	err   error
}

// Write asks all sources and writes the archive, a compressed tar, to w. The error is one of
// writing, or of ctx; unanswered questions are in the index.
func Write(ctx context.Context, w io.Writer, h Head, l Limits, sources []Source) (*Index, error) {
	compressed := gzip.NewWriter(w)
	a := &archive{head: h, limits: l, tar: tar.NewWriter(compressed), index: Index{Made: h.Made.UTC(), Program: h.Program, Files: []File{}}}
	var all sync.WaitGroup
	for _, s := range sources {
		a.index.Sources = append(a.index.Sources, s.Name)
		all.Go(func() {
			silent := false
			for _, q := range s.Questions {
				if silent {
					q.Timeout = min(q.Timeout, shortTimeout)
				}
				content, f, late := q.answer(ctx, l.File)
				a.add(f, content)
				if late && !silent && h.Silent != nil {
					h.Silent(s.Name)
				}
				silent = late
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	slices.SortFunc(a.index.Files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	text, err := json.MarshalIndent(a.index, "", "  ")
	if err != nil {
		return nil, err
	}
	a.write("index.json", append(text, '\n'))
	for _, end := range []func() error{a.tar.Close, compressed.Close} {
		if err := end(); a.err == nil {
			a.err = err
		}
	}
	return &a.index, a.err
}

// answer asks a question. late means that it timed out.
func (q *Question) answer(ctx context.Context, max int) (content []byte, f File, late bool) {
	ctx, cancel := context.WithTimeout(ctx, q.Runs+q.Timeout)
	defer cancel()
	f = File{Name: q.Name}
	content, more, err := q.Ask(ctx, max)
	if err != nil {
		f.Error = err.Error()
		return nil, f, errors.Is(err, context.DeadlineExceeded)
	}
	f.Bytes, f.Cut = len(content), more
	return content, f, false
}

func (a *archive) add(f File, content []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.Error == "" && a.total+len(content) > a.limits.Total {
		f = File{Name: f.Name, Error: fmt.Sprintf("the bundle has reached its maximum of %d bytes", a.limits.Total)}
	}
	a.index.Files = append(a.index.Files, f)
	if f.Error != "" {
		a.index.Failures++
		return
	}
	a.total += len(content)
	a.write(f.Name, content)
}

func (a *archive) write(name string, content []byte) {
	if a.err != nil {
		return
	}
	h := &tar.Header{Name: path.Join(a.head.Root, name), Mode: 0o600, Size: int64(len(content)), ModTime: a.index.Made, Format: tar.FormatPAX}
	if a.err = a.tar.WriteHeader(h); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
}
