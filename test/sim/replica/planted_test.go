package replica

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
)

// twist is a mistake that is planted around the code under test. It breaks a rule of
// docs/replication.md, or one that every implementation takes for granted.
type twist struct {
	rule string
	plan func(*plan) // makes it likely that the mistake matters

	lyingDisk        bool // syncs do nothing
	actOnOld         bool // a node acts on metadata older than its return
	sameBoot         bool // a loss of power is not noticed
	electAnybody     bool // also a replica that is not in sync
	sessionsContinue bool // the end of a session is not reported
	callItFailed     bool // a publish with an unknown outcome is reported as failed
	noCompare        bool // a change of the in-sync set is accepted at any version
	trustful         bool // what opening a log found is ignored
	unyielding       bool // a leader never yields

	sizes   func(*limit.Sizes)             // changes the limits that the replicas use
	view    func(*process, *coord.View)    // changes the metadata that a node sees
	propose func(*process, *meta.AlterISR) // changes a proposal in transit
	request func(s *session, kind uint8, request []byte, reply func([]byte)) ([]byte, func([]byte))
}

// Positions of fields in a request and in an answer: see pkg/coord/replication.
const (
	atEpoch     = 12
	atSnapshot  = 44
	atCommitted = 40
	atSync      = 48
	atBatches   = 49

	atAnswerEpoch = 1
	atAnswerEnd   = 17
)

func syncSometimes(p *plan) { p.sync = meta.SyncPolicy{Interval: 200 * time.Millisecond} }

// harmOften makes damage to disks likely.
func harmOften(p *plan) { p.harm, p.sync, p.pause = true, meta.SyncAlways(), 100*time.Millisecond }

// planted are the mistakes.
func planted() []twist {
	return []twist{
		{rule: "AckAfterSync: no disk syncs", lyingDisk: true},
		{rule: "AckAfterSync: followers do not sync", view: func(p *process, v *coord.View) {
			if v.Leader != p.node.id {
				v.Sync = meta.SyncPolicy{Interval: meta.MaxSyncInterval}
			}
		}, request: func(_ *session, kind uint8, request []byte, reply func([]byte)) ([]byte, func([]byte)) {
			if kind == replication.KindPut {
				request[atSync] = 0
			}
			return request, reply
		}},
		{rule: "AppendIsNotCommit", request: func(_ *session, kind uint8, request []byte, reply func([]byte)) ([]byte, func([]byte)) {
			if kind == replication.KindPut {
				binary.LittleEndian.PutUint64(request[atCommitted:], math.MaxUint64)
			}
			return request, reply
		}},
		{rule: "an acknowledgement before the append", request: ackFirst},
		{rule: "WalkBack: nothing is ever cut", request: func(_ *session, kind uint8, request []byte, reply func([]byte)) ([]byte, func([]byte)) {
			if kind == replication.KindTruncate {
				request = request[:1] // the receiver cannot decode it
			}
			return request, reply
		}},
		{rule: "ElectFromISR", electAnybody: true},
		{rule: "BootRule", sameBoot: true, plan: syncSometimes},
		{rule: "RegisterFirst", actOnOld: true, plan: func(p *plan) { p.metaLag = 200 * time.Millisecond }},
		{rule: "a leader that does not count one in sync", view: func(_ *process, v *coord.View) {
			v.MinISR = 1
			for i, id := range slices.Backward(v.ISR) {
				if id != v.Leader && len(v.ISR) > 1 {
					v.ISR = slices.Delete(slices.Clone(v.ISR), i, i+1)
					return
				}
			}
		}},
		{rule: "GrowCounts: who joins was not counted", propose: func(p *process, c *meta.AlterISR) {
			part, _ := p.w.reg.view()
			c.ISR, c.Joiner, c.JoinerIncarnation = part.Replicas, "", 0
		}},
		{rule: "CompareAndSwap", noCompare: true, plan: func(p *plan) {
			p.replicas, p.nodes, p.minISR, p.publishers = 3, 3, 2, 8
			p.lag, p.metaLag, p.pause, p.chaos = 200*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, 10*time.Second
		}},
		{rule: "PositionsJoin: no replica stores positions", request: func(_ *session, kind uint8, request []byte, reply func([]byte)) ([]byte, func([]byte)) {
			if kind == replication.KindPositions {
				kept := slices.Clone(request[:atSnapshot])
				request = append(kept, make([]byte, 8)...)
			}
			return request, reply
		}},
		{rule: "SuspectLast: what opening a log found is passed over", trustful: true, plan: harmOften},
		{rule: "LongerStays: followers erase what their leader lacks", trustful: true, unyielding: true, plan: harmOften, view: func(_ *process, v *coord.View) {
			v.Unclean = math.MaxUint64
		}},
		{rule: "FailedOnlyUnwritten", callItFailed: true},
		{rule: "limits: an entry may be as large as a frame", sizes: func(s *limit.Sizes) { s.Entry = s.Frame }},
		{rule: "limits: a group takes one more entry until it is full", sizes: func(s *limit.Sizes) { s.Forming = s.Group }},
		{rule: "limits: a put carries more than a frame", sizes: func(s *limit.Sizes) { s.Chunk, s.Window = 2*s.Frame, 4*s.Frame }},
		{rule: "limits: a follower queues less than a leader sends", sizes: func(s *limit.Sizes) { s.Put = s.Group / 2 }},
	}
}

// ackFirst makes a follower acknowledge each put on arrival, and store most of it.
func ackFirst(s *session, kind uint8, request []byte, reply func([]byte)) ([]byte, func([]byte)) {
	if kind != replication.KindPut || len(request) <= atBatches {
		return request, reply
	}
	end, raw := uint64(0), request[atBatches:]
	for len(raw) > 0 {
		b, err := commitlog.Decode(raw)
		if err != nil {
			return request, reply
		}
		end, raw = uint64(b.End()), raw[b.Size():]
	}
	answer := make([]byte, 1+4*8+4)
	copy(answer[atAnswerEpoch:], request[atEpoch:atEpoch+8])
	binary.LittleEndian.PutUint64(answer[atAnswerEnd:], end)
	reply(answer)
	if s.net.chance(10) {
		request = request[:1]
	}
	return request, func([]byte) {}
}

// plantedSeeds is how many runs may pass until the simulation must have found a mistake.
const plantedSeeds = 200

// TestPlantedMistakesAreFound checks the simulation itself. It does not run under the race
// detector: the other tests run the same worlds under it, it cannot find these mistakes, and it
// once reported memory as shared that one run had freed and the next had reused.
func TestPlantedMistakesAreFound(t *testing.T) {
	if raceEnabled {
		t.Skip("runs without the race detector")
	}
	for _, tw := range planted() {
		t.Run(tw.rule, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= plantedSeeds; seed++ {
				var wrongs []string
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed, &tw)
					w.run(seed)
					w.mu.Lock()
					defer w.mu.Unlock()
					wrongs = w.wrongs
				})
				if len(wrongs) > 0 {
					t.Logf("found at seed %d: %s", seed, wrongs[0])
					return
				}
			}
			t.Errorf("not found in %d runs", plantedSeeds)
		})
	}
}
