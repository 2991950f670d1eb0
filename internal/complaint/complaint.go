// Package complaint rate-limits log lines caused by clients and other strangers. It bounds how
// often a line of each kind is written and how much client-chosen text it contains, so that a
// misbehaving client cannot flood the log. The caller decides which events get a line.
package complaint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// every is how long after a line the next one of its kind is written at the earliest,
// and maxText how much of a text is.
const (
	every   = time.Second
	maxText = 256 // bytes
)

// Book writes lines, of each kind one in a second at most. The zero value is ready. Its
// methods are safe for concurrent use.
type Book struct {
	mu    sync.Mutex // guards what follows
	kinds map[string]*kind
}

// kind is a log message: when its last line was, and how many were suppressed since.
type kind struct {
	loggedAt time.Time
	omitted  int // since then
}

// Warn logs a warning; see Log.
func (b *Book) Warn(log *slog.Logger, now time.Time, text string, args ...any) bool {
	return b.Log(log, slog.LevelWarn, now, text, args...)
}

// Log logs a line, unless one with the same text was logged a moment ago: then the next line
// reports how many were omitted. text is a constant of the caller, never a peer's text; Short
// shortens the values among args. It reports whether the line was logged.
func (b *Book) Log(log *slog.Logger, level slog.Level, now time.Time, text string, args ...any) bool {
	omitted, ok := b.mayLog(now, text)
	if !ok {
		return false
	}
	attrs := make([]any, 0, len(args)+2)
	for _, a := range args {
		attrs = append(attrs, shortened(a))
	}
	if omitted > 0 {
		attrs = append(attrs, "omitted", omitted)
	}
	log.Log(context.Background(), level, text, attrs...) //nolint:sloglint // the constant of a caller
	return true
}

// mayLog reports whether a line is to be written, and how many were not since the last one.
func (b *Book) mayLog(now time.Time, text string) (omitted int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, known := b.kinds[text]
	if !known {
		k = &kind{}
		if b.kinds == nil {
			b.kinds = map[string]*kind{}
		}
		b.kinds[text] = k
	} else if now.Sub(k.loggedAt) < every {
		k.omitted++
		return 0, false
	}
	omitted = k.omitted
	k.loggedAt, k.omitted = now, 0
	return omitted, true
}

// Writer returns what logs each line that a library writes, as the error of a line with
// the same text.
func (b *Book) Writer(log *slog.Logger, level slog.Level, text string) io.Writer {
	return writer(func(line string) { b.Log(log, level, time.Now(), text, "error", line) })
}

type writer func(line string)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	w(string(bytes.TrimSuffix(p, []byte("\n"))))
	return len(p), nil
}

// Short returns what may be logged of a text that a stranger may have chosen: its
// beginning, on one line.
func Short(text string) string {
	cut := len(text) > maxText
	if cut {
		text = text[:maxText]
	}
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, text)
	if cut {
		text += "..."
	}
	return text
}

func shortened(value any) any {
	switch v := value.(type) {
	case string:
		return Short(v)
	case error:
		return Short(v.Error())
	case fmt.Stringer:
		return Short(v.String())
	}
	return value
}
