package replication

import (
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// history is the epochs of a log, and its end.
type history struct {
	epochs []commitlog.EpochStart
	start  seq.Offset
	end    seq.Offset
}

// endOf returns the largest epoch up to e in the history, and the offset where
// it ends.
func (h history) endOf(e seq.Epoch) (seq.Epoch, seq.Offset) {
	last, end := seq.Epoch(0), h.start
	for i, s := range h.epochs {
		if s.Epoch > e {
			break
		}
		last, end = s.Epoch, h.end
		if i+1 < len(h.epochs) {
			end = h.epochs[i+1].Start
		}
	}
	return last, end
}

// common returns the offset up to which two logs may agree, by their epochs:
// the end of the largest epoch that both have, in the log where it ends first.
// Content must still be compared there: see KIP-101 and KIP-279 of the Kafka
// project for why neither offsets nor one look-up will do.
func common(leader, follower history) seq.Offset {
	e := seq.Epoch(0)
	if n := len(follower.epochs); n > 0 {
		e = follower.epochs[n-1].Epoch
	}
	for {
		ofLeader, endL := leader.endOf(e)
		ofFollower, endF := follower.endOf(ofLeader)
		if ofLeader == ofFollower {
			return min(endL, endF)
		}
		e = ofFollower // smaller than ofLeader: try what the follower had before
	}
}
