package formation

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// TestRefusalIsLoggedOnce: a permanent refusal is logged, but not with every attempt. A node that
// is not up yet is not logged.
func TestRefusalIsLoggedOnce(t *testing.T) {
	alert := fate.Mark(&net.OpError{Op: "remote error", Err: tls.AlertError(48)}, fate.Refused)
	for _, test := range []struct {
		name  string
		looks []error
		warns int
	}{
		{"certificate", []error{alert, alert, alert}, 1},
		{"another reason", []error{alert, fate.Refuse("wrong cluster"), alert}, 3},
		{"nobody there", []error{
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, io.EOF,
			context.DeadlineExceeded, fate.Mark(errors.New("broke"), fate.Uncertain),
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said bytes.Buffer
			look := 0
			n := New(Options{
				Node: "n1", Address: "n1", Join: []string{"n2"}, Expect: 2,
				Logger: slog.New(slog.NewTextHandler(&said, nil)),
				Call:   func(context.Context, meta.NodeID, string, []byte) ([]byte, error) { return nil, test.looks[look] },
			})
			for look = range test.looks {
				if found, err := n.look(t.Context()); len(found.answers) > 0 || len(found.silent) != 1 || err != nil {
					t.Error(found, err)
				}
			}
			if got := strings.Count(said.String(), "level=WARN"); got != test.warns {
				t.Errorf("%d warnings, not %d: %s", got, test.warns, said.String())
			}
		})
	}
}

// A node that waits for its cluster logs that repeatedly and names the missing nodes: a silent node
// would look like a working one.
func TestWaitingNodeNamesMissingNodes(t *testing.T) {
	for _, expect := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			n := New(Options{
				Node: "n1", Address: "n1", Join: []string{"n1", "n2:4152"}, Expect: expect,
				Logger: slog.New(slog.NewTextHandler(&said, nil)),
				Call: func(_ context.Context, _ meta.NodeID, to string, _ []byte) ([]byte, error) {
					if to == "n1" {
						return nil, ErrSelf
					}
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				},
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			done := make(chan error)
			go func() {
				_, err := n.form(ctx)
				done <- err
			}()
			time.Sleep(time.Minute)
			if why := n.Waiting(); !strings.Contains(why, "n2:4152") {
				t.Errorf("expecting %d, it waits for %q", expect, why)
			}
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("expecting %d: %v", expect, err)
			}
			warnings := strings.Count(said.String(), "level=WARN")
			if warnings < 4 || warnings > 6 || !strings.Contains(said.String(), "bootstrap-expect") || !strings.Contains(said.String(), "n2:4152") {
				t.Errorf("expecting %d, %d warnings:\n%s", expect, warnings, said.String())
			}
			if why := n.Waiting(); why != "" {
				t.Errorf("it does not wait any more, and says %q", why)
			}
		})
	}
}

// TestClaimantOfAnAddress: the leader is not at its own address in the metadata either after it has moved.
// Two nodes had exchanged their machines: the leader refused the other one for good.
func TestClaimantOfAnAddress(t *testing.T) {
	c := raftstore.Configuration{Members: []raftstore.Member{{ID: "n1", Address: "a"}, {ID: "n2", Address: "b"}}}
	n1, n2 := identity{"n1", "a", 1}, identity{"n2", "b", 2}
	for _, test := range []struct {
		name           string
		leader         identity
		who            identity
		at             map[string]identity // processes by address
		itself, holder identity
	}{
		{"its own", n1, n2, map[string]identity{"b": n2}, identity{}, identity{}},
		{"a free one", n1, identity{"n2", "c", 2}, map[string]identity{"c": {"n2", "c", 2}}, identity{"n2", "c", 2}, identity{}},
		{"a free one, where it does not respond", n1, identity{"n2", "c", 2}, nil, identity{}, identity{}},
		{"the leader's", n1, identity{"n2", "a", 2}, nil, identity{}, n1},
		{"the one that the leader left", identity{"n1", "b", 1}, identity{"n2", "a", 2}, map[string]identity{"a": {"n2", "a", 2}}, identity{"n2", "a", 2}, identity{}},
		{"another member's", n1, identity{"n3", "b", 3}, map[string]identity{"b": {"n3", "b", 3}}, identity{"n3", "b", 3}, identity{}},
		{"another member's, which responds", n1, identity{"n3", "b", 3}, map[string]identity{"b": n2}, identity{}, n2},
		{"another member's, by the leader", identity{"n1", "b", 1}, identity{"n1", "b", 1}, nil, identity{"n1", "b", 1}, identity{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := New(Options{
				Node: test.leader.Node, Address: test.leader.Address, Session: test.leader.Session,
				Call: func(_ context.Context, node meta.NodeID, to string, _ []byte) ([]byte, error) {
					if found := test.at[to]; found.Node == node && node != "" {
						return json.Marshal(answer{seen: seen{identity: found}, Granted: true})
					}
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				},
			})
			if got := n.around(t.Context(), c, candidate{identity: test.who}); got.itself.identity != test.itself || got.holder != test.holder {
				t.Errorf("%+v, not %+v and %+v", got, test.itself, test.holder)
			}
		})
	}
}

// A node that had been started alone, and was given the addresses of a cluster later, served its own
// cluster without a word: what was published to it was in no other node.
func TestMemberNamesJoinAddressesOfAnotherCluster(t *testing.T) {
	var said bytes.Buffer
	found := ErrOtherCluster
	n := New(Options{
		Node: "n1", Address: "n1", Join: []string{"n1", "n2:4152", "n3:4152"}, HasState: true,
		Logger: slog.New(slog.NewTextHandler(&said, nil)),
		Call: func(_ context.Context, _ meta.NodeID, to string, _ []byte) ([]byte, error) {
			switch to {
			case "n1":
				return nil, ErrSelf
			case "n2:4152":
				return nil, found
			}
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		},
	})
	for range 3 {
		compare(t.Context(), n)
	}
	if others := OtherClusters(n); len(others) != 1 || others[0] != "n2:4152" {
		t.Errorf("addresses of another cluster: %q", others)
	}
	if text := said.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "n2:4152") || strings.Contains(text, "n3:4152") {
		t.Errorf("it logged:\n%s", text)
	}
	found = ErrSelf // its address now names this node
	if compare(t.Context(), n); len(OtherClusters(n)) != 0 {
		t.Errorf("still of another cluster: %q", OtherClusters(n))
	}
}
