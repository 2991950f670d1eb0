package raftstore

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/meta"
)

// closedListener accepts no connection.
type closedListener struct{ net.Listener }

func (closedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closedListener) Close() error              { return nil }

// member is the far end of the connections of a transport: it answers requests with success.
func member(t *testing.T) raft.StreamLayer {
	l := pipeLayer{make(chan net.Conn), make(chan struct{})}
	n := raft.NewNetworkTransport(l, 3, time.Second, io.Discard)
	go func() {
		for {
			select {
			case rpc := <-n.Consumer():
				switch rpc.Command.(type) {
				case *raft.AppendEntriesRequest:
					rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				case *raft.RequestPreVoteRequest:
					rpc.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
				case *raft.InstallSnapshotRequest:
					_, _ = io.Copy(io.Discard, rpc.Reader)
					rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
				case *raft.TimeoutNowRequest:
					rpc.Respond(&raft.TimeoutNowResponse{}, nil)
				}
			case <-l.closed:
				return
			}
		}
	}()
	t.Cleanup(func() { _ = n.Close() })
	return l
}

// Two members may have one address, one after the other: the leader's configuration is older than
// its connections, or newer. What is meant for one must never reach the other.
func TestConnectionsBelongToMembers(t *testing.T) {
	far := member(t).(pipeLayer)
	var dialled []meta.NodeID
	o := &Options{NodeID: "n1", Address: "a:1", HeartbeatTimeout: time.Second, Stream: &Stream{
		Listener: closedListener{},
		Dial: func(_ context.Context, to meta.NodeID, address string, _ time.Duration) (net.Conn, error) {
			if address != "b:1" {
				t.Errorf("%s is dialled at %s", to, address)
			}
			dialled = append(dialled, to)
			near, end := net.Pipe()
			far.conns <- end
			return near, nil
		},
	}}
	c := openNetwork(o, &guard{}, make(chan struct{}))
	defer func() { _ = c.close() }()
	peers := c.peers
	var want []meta.NodeID
	for name, call := range map[string]func(raft.ServerID) error{
		"heartbeat": func(id raft.ServerID) error {
			return peers.AppendEntries(id, "b:1", &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
		},
		"entries": func(id raft.ServerID) error {
			return peers.AppendEntries(id, "b:1", &raft.AppendEntriesRequest{LeaderCommitIndex: 1}, &raft.AppendEntriesResponse{})
		},
		"pipeline": func(id raft.ServerID) error {
			p, err := peers.AppendEntriesPipeline(id, "b:1")
			if err == nil {
				err = p.Close()
			}
			return err
		},
		"vote": func(id raft.ServerID) error {
			return peers.RequestVote(id, "b:1", &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		},
		"vote before": func(id raft.ServerID) error {
			return peers.RequestPreVote(id, "b:1", &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
		},
		"snapshot": func(id raft.ServerID) error {
			return peers.InstallSnapshot(id, "b:1", &raft.InstallSnapshotRequest{Size: 1}, &raft.InstallSnapshotResponse{}, strings.NewReader("x"))
		},
		"election": func(id raft.ServerID) error {
			return peers.TimeoutNow(id, "b:1", &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		},
	} {
		a, b := raft.ServerID("a "+name), raft.ServerID("b "+name)
		for _, id := range []raft.ServerID{a, b} {
			if err := call(id); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			want = append(want, meta.NodeID(id))
		}
	}
	if !slices.Equal(dialled, want) {
		t.Errorf("dialled %q, want %q", dialled, want)
	}
}
