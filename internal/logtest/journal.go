// Package logtest captures log lines for tests.
package logtest

import (
	"slices"
	"strings"
	"sync"
)

// Journal is the lines of a log. Its methods are safe for concurrent use.
type Journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// Write implements io.Writer.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(p))
	return len(p), nil
}

// Lines returns what was written.
func (j *Journal) Lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// String returns all that was written.
func (j *Journal) String() string { return strings.Join(j.Lines(), "") }

// Has reports whether a line contains all of these words.
func (j *Journal) Has(words ...string) bool {
	return slices.ContainsFunc(j.Lines(), func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}
