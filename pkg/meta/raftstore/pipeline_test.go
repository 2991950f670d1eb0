package raftstore

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// pipeLayer connects to the layer that accepts from the same channel.
type pipeLayer struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeLayer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	here, there := net.Pipe()
	l.conns <- there
	return here, nil
}

func (l pipeLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeLayer) Close() error {
	close(l.closed)
	return nil
}

func (pipeLayer) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestStuckPipelineIsClosed has a member refuse entries. The library stops reading answers
// after the first refusal.
func TestStuckPipelineIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		open := func(layer raft.StreamLayer) *raft.NetworkTransport {
			return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
				Stream: layer, MaxPool: 1, Timeout: timeout, Logger: newBridge(slog.New(slog.DiscardHandler)),
			})
		}
		conns := make(chan net.Conn, 1)
		member := open(pipeLayer{conns, make(chan struct{})})
		library := open(dialer{pipeLayer{conns, make(chan struct{})}})
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case rpc := <-member.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{}, nil)
				case <-stop:
					return
				}
			}
		}()
		peers := &transport{NetworkTransport: library, stalled: func(time.Time) time.Duration { return 0 }, timeout: timeout}
		p, err := peers.AppendEntriesPipeline("n2", "n2")
		if err != nil {
			t.Fatal(err)
		}
		send := func() error {
			_, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1, LeaderCommitIndex: 1}, &raft.AppendEntriesResponse{})
			return err
		}
		if err := send(); err != nil {
			t.Fatal(err)
		}
		<-p.Consumer()
		began := time.Now()
		for n := 0; err == nil; n++ { // without a consumer
			if err = send(); n > 5 {
				break
			}
		}
		if took := time.Since(began); err == nil || took < timeout || took > 2*timeout {
			t.Errorf("requests that the peer does not read: %v after %v", err, took)
		}
		close(stop)
		_ = p.Close()
		_ = library.Close()
		_ = member.Close()
	})
}

// dialer is a layer that accepts no connections.
type dialer struct{ pipeLayer }

func (d dialer) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}
