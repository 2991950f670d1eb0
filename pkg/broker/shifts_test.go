package broker

import (
	"log/slog"
	"testing"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestLogRecordsLeaderships(t *testing.T) {
	logs := map[meta.NodeID]*logtest.Journal{"n1": {}, "n2": {}}
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
		l.eventually("a line of "+string(node)+"'s log", func() bool { return logs[node].Has(words...) })
	}
	l.stop("n2")
	if !logs["n2"].Has("stopped leading partitions", "partitions=t/0@2") {
		t.Error("the end of a node is not the end of what it leads")
	}
}
