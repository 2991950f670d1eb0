package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/peer"
)

func TestStrangersAtTheClusterPortDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d := &callServer{roster: newRoster("a", nil, nil), log: slog.New(slog.NewTextHandler(&said, nil))}
		long := strings.Repeat("\nx", 1<<10)
		strangers := make([]peer.Event, 2*maxComplaints)
		for i := range strangers {
			strangers[i] = peer.Event{
				Kind: peer.EventRejected, Inbound: true, Node: peer.Node(fmt.Sprint(i, long)),
				Address: "10.0.0.1:1", Err: errors.New("refused" + long),
			}
		}
		for second := range maxComplaints + 3 {
			before := strings.Count(said.String(), "\n")
			for _, e := range strangers {
				d.event(e)
			}
			if n := strings.Count(said.String(), "\n") - before; n > 1 {
				t.Fatalf("%d lines in second %d", n, second)
			}
			time.Sleep(time.Second) // virtual time
		}
		got := said.String()
		if n := strings.Count(got, "\n"); n != maxComplaints {
			t.Errorf("%d lines, want %d: each refusal that is remembered once", n, maxComplaints)
		}
		if !strings.Contains(got, "omitted=") {
			t.Error("nothing says how many lines were left out")
		}
		if limit := maxComplaints << 10; len(got) > limit {
			t.Errorf("%d bytes, more than %d", len(got), limit)
		}
	})
}

func TestFailureToAcceptIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d := &callServer{roster: newRoster("a", nil, nil), log: slog.New(slog.NewTextHandler(&said, nil))}
		for range 30 {
			d.event(peer.Event{Kind: peer.EventAccept, Inbound: true, Address: "10.0.0.1:4152", Err: errors.New("too many open files")})
			time.Sleep(100 * time.Millisecond)
		}
		if got := said.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "too many open files") || !strings.Contains(got, "omitted=9") {
			t.Errorf("logged in three seconds: %s", got)
		}
	})
}
