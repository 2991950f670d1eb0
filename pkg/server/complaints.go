package server

import (
	"log/slog"
	"sync"
	"time"
)

// complainEvery is how often a client's fault is told of at most, and maxComplaint how
// much of a text that clients may have chosen.
const (
	complainEvery = time.Second
	maxComplaint  = 256 // bytes
)

// complaints tells of what clients do wrong, but not of each time: whoever does it
// again and again would fill the log. The zero value is ready; its methods may be called
// by many goroutines.
type complaints struct {
	mu     sync.Mutex // guards what follows
	told   time.Time  // zero: never
	untold int        // since then
}

// warn logs a line, unless one was logged a moment ago; then the next one counts it.
func (c *complaints) warn(log *slog.Logger, now time.Time, text string, args ...any) {
	c.mu.Lock()
	if !c.told.IsZero() && now.Sub(c.told) < complainEvery {
		c.untold++
		c.mu.Unlock()
		return
	}
	untold := c.untold
	c.told, c.untold = now, 0
	c.mu.Unlock()
	if untold > 0 {
		args = append(args, "untold", untold)
	}
	log.Warn(text, args...) //nolint:sloglint // the constant of a caller
}

// short returns what may be logged of a text.
func short(text string) string {
	if len(text) > maxComplaint {
		return text[:maxComplaint] + "..."
	}
	return text
}
