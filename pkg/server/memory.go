package server

import (
	"context"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// What a connection costs in bytes: its goroutines and the buffers that everyone
// has; a session of TLS; and the states of the compressions, reader and writer.
const (
	connectionCost = 24 << 10
	tlsCost        = 64 << 10
	snappyCost     = 256 << 10
	deflateCost    = 1 << 20
)

// purse pays for the memory of one connection's reader, out of the node's budget. It
// is an nsq.Purse, of the goroutine of the reader.
type purse struct {
	ctx   context.Context // of the connection: with it ends the waiting
	share limit.Share
}

func newPurse(ctx context.Context, m *limit.Memory) *purse {
	return &purse{ctx: ctx, share: m.Share(limit.Bodies)}
}

// Take implements nsq.Purse.
func (p *purse) Take(n int) error { return p.share.Reserve(p.ctx, n) }

// Try implements nsq.Purse.
func (p *purse) Try(n int) bool { return p.share.Try(n) }

// Give implements nsq.Purse.
func (p *purse) Give(n int) { p.share.Give(n) }

// freeOutput is how much of a connection's output buffer is not charged, and smallOutput
// up to where it grows also when there is no memory: who reads messages of an ordinary
// size does not wait for those who take large ones.
const (
	freeOutput  = 16 << 10
	smallOutput = limit.SmallShare
)

// outputCost is what an output buffer for so many bytes costs. A compressor keeps as much
// again until it is sent.
func outputCost(size int, compressed bool) int {
	cost := max(nsq.BufferCap(size)-freeOutput, 0)
	if compressed {
		return 2 * cost
	}
	return cost
}

// payUpgrade takes the memory of what the settings upgrade a connection to.
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
