package server

import (
	"context"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// Memory of a connection in bytes: its goroutines and the buffers of every connection, a TLS
// session, and the states of the compressions for reader and writer.
const (
	connectionCost = 24 << 10
	tlsCost        = 64 << 10
	snappyCost     = 256 << 10
	deflateCost    = 1 << 20
)

// bodyMemory pays for the memory of one connection's reader from the node's budget. It is an nsq.Memory.
// The reader's goroutine uses it.
type bodyMemory struct {
	ctx   context.Context // of the connection: waiting for memory ends with it
	share limit.Share
}

func newBodyMemory(ctx context.Context, m *limit.Memory) *bodyMemory {
	return &bodyMemory{ctx: ctx, share: m.Share(limit.Bodies)}
}

// Take implements nsq.Memory.
func (p *bodyMemory) Take(n int) error { return p.share.Reserve(p.ctx, n) }

// Try implements nsq.Memory.
func (p *bodyMemory) Try(n int) bool { return p.share.Try(n) }

// Give implements nsq.Memory.
func (p *bodyMemory) Give(n int) { p.share.Give(n) }

// freeOutput is how much of a connection's output buffer is not charged. smallOutput is the size up
// to which the buffer grows even without free memory: a client that reads messages of ordinary size
// does not wait for clients that take large ones.
const (
	freeOutput  = 16 << 10
	smallOutput = limit.SmallShare
)

// outputCost is the memory that an output buffer of a size costs. A compressor keeps as much again
// until it is sent.
func outputCost(size int, compressed bool) int {
	cost := max(buffer.Cap(size)-freeOutput, 0)
	if compressed {
		return 2 * cost
	}
	return cost
}

// payUpgrade reserves the memory of the upgrades in the settings.
func (s *session) payUpgrade(to *nsq.Settings) error {
	cost := 0
	for _, part := range []struct {
		on   bool
		cost int
	}{{to.TLS, tlsCost}, {to.Snappy, snappyCost}, {to.Deflate, deflateCost}} {
		if part.on {
			cost += part.cost
		}
	}
	if !s.standing.Try(cost) {
		return nsq.Errorf(failure.IdentifyFailed, "IDENTIFY failed %v", s.standing.Refuse())
	}
	return nil
}
