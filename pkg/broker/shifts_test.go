package broker

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// journal is the lines of a log.
type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(p))
	return len(p), nil
}

// has says whether a line contains all of these words.
func (j *journal) has(words ...string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.lines, func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

func TestTheLogSaysWhoLedWhen(t *testing.T) {
	logs := map[meta.NodeID]*journal{"n1": {}, "n2": {}}
	l := newLan(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(logs[o.Self], &slog.HandlerOptions{Level: slog.LevelInfo}))
	}, "n1", "n2")
	l.create("t", "n1", "n2")
	l.mustPut("t", 0, "a")
	l.elect("t", 0, "n2")
	l.mustPut("t", 0, "b")
	for node, words := range map[meta.NodeID][]string{
		"n1": {"level=INFO", "stopped leading partitions", "count=1", "partitions=t/0@1"},
		"n2": {"level=INFO", "started leading partitions", "count=1", "partitions=t/0@2"},
	} {
		l.eventually("a line of "+string(node)+"'s log", func() bool { return logs[node].has(words...) })
	}
	l.stop("n2")
	if !logs["n2"].has("stopped leading partitions", "partitions=t/0@2") {
		t.Error("the end of a node is not the end of what it leads")
	}
}

func TestManyShiftsAreOneLine(t *testing.T) {
	var s shifts
	for i := range namedShifts + 2 {
		s.came.add("t", i, seq.Epoch(i+1))
	}
	var j journal
	log := slog.New(slog.NewTextHandler(&j, nil))
	s.sumUp(log)
	s.sumUp(log) // nothing since
	if len(j.lines) != 1 || !j.has("count=10", "t/0@1 t/1@2 ", "t/7@8 and 2 more") {
		t.Errorf("got %q", j.lines)
	}
}
