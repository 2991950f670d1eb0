package raftstore

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// The library panics if it handles a heartbeat of a newer term while the log is
// closed.
func TestHeartbeatsEndWhenStoreCloses(t *testing.T) {
	open := func() *raft.NetworkTransport {
		n, err := raft.NewTCPTransport("127.0.0.1:0", nil, 1, time.Minute, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = n.Close()
			n.CloseStreams()
		})
		return n
	}
	to, from := &transport{NetworkTransport: open()}, open()
	var handled atomic.Int32
	to.SetHeartbeatHandler(func(rpc raft.RPC) {
		handled.Add(1)
		rpc.Respond(&raft.AppendEntriesResponse{Term: 1}, nil)
	})
	beat := func() error {
		return from.AppendEntries("n", to.LocalAddr(), &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{Addr: []byte("leader")}, Term: 1,
		}, &raft.AppendEntriesResponse{})
	}
	if err := beat(); err != nil || handled.Load() != 1 {
		t.Fatalf("%v, %d handled", err, handled.Load())
	}
	to.endHeartbeats()
	if err := beat(); err == nil || handled.Load() != 1 {
		t.Errorf("%v, %d handled after the end", err, handled.Load())
	}
}
