package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

const (
	// awaitAgreed is how long a start waits for the agreed time. The leader of the metadata knows it as soon as a
	// majority has asked it twice.
	awaitAgreed = 5 * time.Second
	// awaitEvery is the pause between two looks at it.
	awaitEvery = 20 * time.Millisecond
)

var errStanding = errors.New("malformed status of the metadata leader")

// encodeReport encodes the question of kindStanding: round, wall and own, 8 bytes each, little-endian, and whether
// the time is known, a byte.
func encodeReport(r age.Report) []byte {
	b := binary.LittleEndian.AppendUint64(nil, r.Round)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Wall))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Own))
	return append(b, bit(r.Known))
}

func decodeReport(b []byte) (age.Report, error) {
	r := fields.Reader{Rest: b}
	x := age.Report{Round: r.Uint64(), Wall: time.Duration(r.Uint64()), Own: time.Duration(r.Uint64()), Known: r.Uint8() == 1} //nolint:gosec // encoded as such
	return x, r.End(errStanding, "the question")
}

// encodeStanding encodes the answer: index and age of the Standing, round, time and off of the age.Answer, 8 bytes
// each, little-endian, and whether the time is known, a byte.
func encodeStanding(s raftstore.Standing, x age.Answer) []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.Index)
	for _, n := range []uint64{uint64(s.Age), x.Round, uint64(x.Time), uint64(x.Off)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return append(b, bit(x.Known))
}

func decodeStanding(b []byte) (raftstore.Standing, age.Answer, error) {
	r := fields.Reader{Rest: b}
	s := raftstore.Standing{Index: r.Uint64(), Age: time.Duration(r.Uint64())}                                         //nolint:gosec // encoded as such
	x := age.Answer{Round: r.Uint64(), Time: int64(r.Uint64()), Off: time.Duration(r.Uint64()), Known: r.Uint8() == 1} //nolint:gosec // likewise
	return s, x, r.End(errStanding, "the answer")
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// standing answers kindStanding.
func (c *callServer) standing(s *raftstore.Store, from meta.NodeID, payload []byte) ([]byte, error) {
	report, err := decodeReport(payload)
	if err != nil {
		return nil, err
	}
	at, err := s.Standing()
	if err != nil {
		return nil, err
	}
	return encodeStanding(at, c.clock.Answer(string(from), report, len(s.Members().Configuration().Voters()), time.Now())), nil
}

// timekeeper is how a node takes part in the agreed time.
type timekeeper struct {
	clock *age.Agreed
	store *raftstore.Store
	log   *slog.Logger
	told  time.Duration // the skew that was logged last; 0: none
}

// await waits until the node knows the agreed time, but not for ever: without it, the node judges the age of data
// by its own clock.
func (t *timekeeper) await(ctx context.Context) {
	until := time.Now().Add(awaitAgreed)
	for t.lead(); !t.clock.Known(); t.lead() {
		if time.Now().After(until) {
			t.log.Warn("no agreed time from the metadata leader yet; the node starts with its own clock, and may delete messages with a time to live too early if that is ahead",
				"waited", awaitAgreed)
			return
		}
		if !beat.Pause(ctx, awaitEvery) {
			return
		}
	}
}

// lead keeps the agreed time while this node leads the metadata.
func (t *timekeeper) lead() {
	if t.store.IsLeader() {
		t.clock.Lead(len(t.store.Members().Configuration().Voters()), time.Now())
	}
}

// watch is called periodically. It logs once that the clock differs, again if by another amount, and that it no
// longer does.
func (t *timekeeper) watch() {
	t.lead()
	skew := t.clock.Skew(time.Now())
	switch {
	case skew.Abs() < age.ReportedSkew/2 && t.told != 0:
		t.told = 0
		t.log.Info("the clock of this node agrees with the others' again")
	case skew.Abs() >= age.ReportedSkew && (t.told == 0 || (skew-t.told).Abs() > max(time.Second, t.told.Abs()/2)):
		t.told = skew
		t.log.Warn("the clock of this node differs from the others': messages keep the agreed time; set the clock, and check its time service",
			"ahead", skew.Round(time.Millisecond))
	}
}
