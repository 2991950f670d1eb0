package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestClientsDoNotFillTheLog(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	var c complaints
	now := time.Unix(1000, 0)
	text := strings.Repeat("x", 1<<20)
	for range 1000 {
		c.warn(log, now, "refused", "why", short(text))
	}
	c.warn(log, now.Add(complainEvery), "refused")
	c.warn(log, now.Add(2*complainEvery), "refused")
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "untold=999") || strings.Contains(lines[2], "untold") {
		t.Errorf("%d lines, the second is %q", len(lines), lines[min(1, len(lines)-1)])
	}
	if len(lines[0]) > 2*maxComplaint {
		t.Errorf("a line of %d bytes", len(lines[0]))
	}
}
