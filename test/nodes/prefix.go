package nodes

import (
	"bytes"
	"io"
	"sync"
)

// Prefixed writes complete lines to w, each with a prefix. Several of them may share a Lines,
// which keeps their lines separate. It is safe for concurrent use.
type Prefixed struct {
	prefix string
	to     *Lines

	mu   sync.Mutex // guards part
	part []byte     // of a line
}

// Lines writes whole lines.
type Lines struct {
	mu sync.Mutex // held while a few lines are written, for that alone
	w  io.Writer
}

// NewLines returns a Lines that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Prefix returns a writer that prefixes lines.
func (l *Lines) Prefix(prefix string) *Prefixed { return &Prefixed{prefix: prefix, to: l} }

// Write implements io.Writer. An incomplete line waits for its rest.
func (p *Prefixed) Write(text []byte) (int, error) {
	lines := p.cut(text)
	if len(lines) == 0 {
		return len(text), nil
	}
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	if _, err := p.to.w.Write(lines); err != nil {
		return 0, err
	}
	return len(text), nil
}

// cut returns the lines that are whole with text, each with its prefix.
func (p *Prefixed) cut(text []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = append(p.part, text...)
	var out []byte
	for {
		line, rest, whole := bytes.Cut(p.part, []byte("\n"))
		if !whole {
			return out
		}
		out = append(append(append(out, p.prefix...), line...), '\n')
		p.part = append(p.part[:0], rest...)
	}
}
