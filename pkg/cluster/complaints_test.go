package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/peer"
)

func TestStrangersAtTheClusterPortDoNotFillTheLog(t *testing.T) {
	var said bytes.Buffer
	d := &desk{roster: newRoster("a", nil, nil), log: slog.New(slog.NewTextHandler(&said, nil))}
	long := strings.Repeat("\nx", 1<<10)
	for i := range 10 * maxComplaints {
		for range 2 {
			d.event(peer.Event{
				Kind: peer.EventRejected, Inbound: true, Node: peer.Node(fmt.Sprint(i, long)),
				Address: "10.0.0.1:1", Err: errors.New("refused" + long),
			})
		}
	}
	got := said.String()
	if n := strings.Count(got, "\n"); n != maxComplaints {
		t.Errorf("%d lines, want %d", n, maxComplaints)
	}
	if limit := maxComplaints << 10; len(got) > limit {
		t.Errorf("%d bytes, more than %d", len(got), limit)
	}
}
