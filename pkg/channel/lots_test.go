package channel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// checkLots returns an error if the lists of ready messages are inconsistent.
func checkLots(t *tracked) error {
	sorted, listed := 0, 0
	for slot := t.ready.head; slot != 0; slot = t.slots[slot].next {
		if m := &t.slots[slot]; m.place != ready || m.due != 0 {
			return fmt.Errorf("offset %d of lot %d is ready in place %d", m.offset, m.due, m.place)
		}
		listed++
	}
	for slot := t.aside.list.head; slot != 0; slot = t.slots[slot].next {
		if m := &t.slots[slot]; m.place != ready || m.due != setAside || m.offset < t.aside.least {
			return fmt.Errorf("offset %d of lot %d is set aside in place %d, those from %d on are", m.offset, m.due, m.place, t.aside.least)
		}
		listed++
	}
	for i, l := range t.lots.of {
		for slot := l.head; slot != 0; slot = t.slots[slot].next {
			if m := &t.slots[slot]; m.place != ready || m.due != int64(i+1) {
				return fmt.Errorf("offset %d of lot %d is in lot %d, place %d", m.offset, m.due, i+1, m.place)
			}
			sorted++
		}
	}
	if sorted != t.lots.sorted {
		return fmt.Errorf("%d messages in lots, counted %d", sorted, t.lots.sorted)
	}
	for slot := 1; slot < len(t.slots); slot++ {
		if t.slots[slot].place == ready {
			listed--
		}
	}
	if listed += sorted + t.isolation.n; listed != 0 {
		return fmt.Errorf("%d ready messages are in no list", -listed)
	}
	return nil
}

func offsets(taken []Delivery) string {
	text := ""
	for _, d := range taken {
		text += fmt.Sprintf("%d/%d ", d.Offset, d.Attempts)
	}
	return text
}

func TestSortedMessagesWaitForTheirLot(t *testing.T) {
	now := time.Now()
	s := New(0, false)
	take := func(lot Lot, consumer uint64, max int) string {
		return offsets(s.Sorting().Take(lot, now, consumer, time.Minute, max, 10, nil))
	}
	if got := take(1, 1, 4); got != "0/1 1/1 2/1 3/1 " {
		t.Fatal(got)
	}
	s.Sorting().Sort(1, 2)
	s.Sorting().Sort(3, 2)
	s.Sorting().Sort(7, 2) // is not in flight
	if c := s.View().Counts(10); inLots(&s.ledger) != 2 || c.Depth != 8 || c.InFlight != 2 || c.Delivered != 2 {
		t.Errorf("%d sorted, %+v", inLots(&s.ledger), c)
	}
	if state, attempts := s.View().StateOf(1); state != Ready || attempts != 0 {
		t.Errorf("%v, %d attempts", state, attempts)
	}
	if got := take(1, 1, 1); got != "4/1 " { // the other lot's messages block none
		t.Error(got)
	}
	if got := take(2, 2, 3); got != "1/1 3/1 5/1 " {
		t.Error(got)
	}
	s.Sorting().Sort(5, 1)
	if err := s.Requeue(3, 2, now, 0); err != nil {
		t.Fatal(err)
	}
	if got := take(1, 1, 2); got != "5/1 3/2 " { // a requeued message is available to all until it is sorted again
		t.Error(got)
	}
	s.Sorting().Sort(3, 2)
	if got := take(1, 1, 1); got != "6/1 " {
		t.Error(got)
	}
	s.Sorting().Sort(6, 9)
	s.Sorting().Merge()
	if got := take(0, 3, 3); got != "3/2 6/1 7/1 " && got != "6/1 3/2 7/1 " {
		t.Error(got)
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
	if got := unsafe.Sizeof(message{}); got != 48 {
		t.Errorf("a tracked message takes %d bytes", got)
	}
}

func TestOrderedChannelWaitsForTheLotOfItsFloor(t *testing.T) {
	now := time.Now()
	s := New(0, true)
	take := func(lot Lot, consumer uint64) string {
		return offsets(s.Sorting().Take(lot, now, consumer, time.Minute, 9, 10, nil))
	}
	if got := take(1, 1); got != "0/1 " {
		t.Fatal(got)
	}
	s.Sorting().Sort(0, 2)
	if got := take(1, 1); got != "" {
		t.Error(got)
	}
	if got := take(2, 2); got != "0/1 " {
		t.Error(got)
	}
	if err := s.Finish(0, 2); err != nil {
		t.Error(err)
	}
	if got := take(1, 1); got != "1/1 " {
		t.Error(got)
	}
}

func TestSortingIsBounded(t *testing.T) {
	now := time.Now()
	s := New(0, false)
	const end = 2 * maxSorted
	for range maxSorted {
		for _, d := range s.Sorting().Take(1, now, 1, time.Minute, 1, end, nil) {
			s.Sorting().Sort(d.Offset, 2)
		}
	}
	if got := s.Sorting().Take(1, now, 1, time.Minute, 1, end, nil); len(got) != 0 || inLots(&s.ledger) != maxSorted {
		t.Errorf("took %v with %d sorted", got, inLots(&s.ledger))
	}
	if got := s.Sorting().Take(2, now, 2, time.Minute, 1, end, nil); offsets(got) != "0/1 " {
		t.Errorf("took %v", got)
	}
	if got := s.Sorting().Take(1, now, 1, time.Minute, 1, end, nil); len(got) != 1 || got[0].Offset != maxSorted {
		t.Errorf("took %v", got)
	}
}

// Whatever happens, only consumers of a message's lot get it, and all messages
// are finished in the end.
func TestRandomSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(testrand.Seed(t), 1))
	for range 50 {
		now, s := time.Now(), New(0, false)
		const end, lotCount = 200, 3
		lotOf := func(o seq.Offset) Lot { return Lot(o%lotCount) + 1 }
		held := map[seq.Offset]uint64{}
		for step := 0; s.View().Floor() < end; step++ {
			if step > 1e5 {
				t.Fatalf("floor %d, %d sorted", s.View().Floor(), inLots(&s.ledger))
			}
			consumer := uint64(rng.IntN(lotCount) + 1)
			for _, d := range s.Sorting().Take(Lot(consumer), now, consumer, time.Hour, rng.IntN(4), end, nil) {
				if lot := lotOf(d.Offset); lot != Lot(consumer) {
					s.Sorting().Sort(d.Offset, lot)
				} else {
					held[d.Offset] = consumer
				}
			}
			for o, by := range held {
				var err error
				switch rng.IntN(4) {
				case 0:
					err = s.Finish(o, by)
				case 1:
					err = s.Requeue(o, by, now, time.Duration(rng.IntN(2))*time.Second)
				default:
					continue
				}
				delete(held, o)
				if err != nil {
					t.Fatal(err)
				}
			}
			switch rng.IntN(20) {
			case 0:
				s.Sorting().Merge()
			case 1:
				s.TakenBy(consumer).Disconnect()
				for o, by := range held {
					if by == consumer {
						delete(held, o)
					}
				}
			case 2:
				now = now.Add(time.Second)
			}
			if err := check(s); err != nil {
				t.Fatal(err)
			}
		}
	}
}
