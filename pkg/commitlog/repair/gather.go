package repair

import (
	"context"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Finding is the result of asking all other replicas for a damaged range.
type Finding int

// Findings.
const (
	Held     Finding = iota // the batches were found
	Nowhere                 // all replicas have answered, and together they do not hold it
	Open                    // some replicas have not answered, or none can prove that it holds the range
	TooLarge                // for the memory of a repair
	Later                   // other ranges have used that memory
)

// Gathering asks other nodes for damaged ranges of one log, one range at a time.
type Gathering struct {
	Nodes  int                                      // number of other nodes
	Ask    func(node int, w Wanted) (Answer, error) // asks one node, numbered from 0
	Room   int                                      // bytes for all ranges
	used   int
	silent map[int]bool // nodes that have not answered
}

// Gather returns the batches of a range. Each node proves its own batches, so a node may continue where
// another one's end.
func (g *Gathering) Gather(w Wanted) (raw []byte, f Finding) {
	if w.From < w.Next && !w.Provable() {
		return nil, Open
	}
	for more := true; more && w.From < w.Next; {
		more = false
		for id := range g.Nodes {
			if g.silent[id] {
				f = Open
				continue
			}
			before := w.From
			var err error
			if raw, err = g.from(id, &w, raw); err != nil {
				if g.silent == nil {
					g.silent = map[int]bool{}
				}
				g.silent[id], f = true, Open
			}
			more = more || w.From > before
			switch {
			case len(raw) <= g.Room-g.used:
			case g.used == 0:
				return nil, TooLarge
			default:
				return nil, Later
			}
			if w.From >= w.Next {
				break
			}
		}
	}
	if w.From < w.Next {
		return nil, max(f, Nowhere)
	}
	g.used += len(raw)
	return raw, Held
}

// from appends to raw the batches that a node has at the start of a range, and advances the start past
// them.
func (g *Gathering) from(id int, w *Wanted, raw []byte) ([]byte, error) {
	whole := len(raw) // bytes of whole batches in raw
	for w.From < w.Next && len(raw) <= g.Room-g.used {
		w.At = len(raw) - whole
		piece, err := g.Ask(id, *w)
		if err != nil || len(piece.Bytes) == 0 {
			return raw[:whole], err
		}
		raw = append(raw, piece.Bytes...)
		for piece.Whole && whole < len(raw) {
			b, err := commitlog.Decode(raw[whole:])
			if err != nil || b.First() != w.From || b.End() > w.Next {
				return raw[:whole], nil //nolint:nilerr // the node does not hold what it should
			}
			w.From, whole = b.End(), whole+b.Size()
		}
	}
	return raw, nil
}

// Collect returns the batches that other nodes have of the due ranges of a log, as far as there is
// memory for them, and records in s the outcome for the others. When ctx ends, it returns what it has.
// all are the damaged ranges of the log, by offset.
func (g *Gathering) Collect(ctx context.Context, log *commitlog.Log, all, due []Extent, s *Sought) (found []Range) {
	for _, e := range due {
		if ctx.Err() != nil {
			break
		}
		w := wantedOf(log, e, all)
		raw, f := g.Gather(w)
		switch {
		case f == Held:
			found = append(found, Range{From: e.From, Next: e.Next, Batches: raw})
		case f == TooLarge:
			s.Large(e)
		case f == Later:
			s.Postpone(e)
		case f == Nowhere, !w.Provable() && w.Behind >= log.End(): // no batch follows that could be compared
			s.Denied(e, time.Now())
		}
	}
	return found
}

// wantedOf returns the request for a damaged range of a log, with what proves that another copy holds
// it. all are the damaged ranges of the log, by offset.
func wantedOf(log *commitlog.Log, e Extent, all []Extent) Wanted {
	w := Wanted{From: e.From, Next: e.Next, Behind: e.Next}
	for _, o := range all {
		if o.From == w.Behind && o.Next > o.From {
			w.Behind = o.Next
		}
	}
	w.Last = log.EpochEnding(w.Behind)
	if b, err := commitlog.Decode(InLog(log).Batch(w.Behind)); err == nil {
		w.Epoch, w.Sum = b.Epoch(), b.Checksum()
	}
	return w
}

// Extents returns the extents of the damage of a log that starts at an offset, by offset, without those
// contained in others.
func Extents(damage []commitlog.Damage, start seq.Offset) (all []Extent) {
	for _, d := range damage {
		e := extentOf(d)
		if d.From < start && d.Next <= start {
			continue // retention has dropped it
		}
		all = slices.DeleteFunc(all, e.Holds)
		if !slices.ContainsFunc(all, func(o Extent) bool { return o.Holds(e) }) {
			all = append(all, e)
		}
	}
	return all
}
