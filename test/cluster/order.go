package main

import (
	"fmt"
	"time"

	"github.com/brokerd/brokerd/test/audit"
)

// order holds one channel on one partition of an ordered topic to its promises:
// one message at a time, in the order of the log, each producer's in the order in
// which they were acknowledged, and a message again only before any that follows
// it. Ids of one partition sort as its log does. It is not safe for concurrent use.
type order struct {
	last     audit.ID // delivered; zero: none
	key      audit.Key
	finished bool // a FIN for it was sent
	again    int  // deliveries that were not the first
	firsts   int
	acked    map[audit.Key]bool // acknowledged and not delivered
	reached  map[int]int        // by producer: one past the highest number delivered
	found    []string
	now      time.Duration // told before what happens then
}

// maxFound bounds how many broken promises are told.
const maxFound = 10

func newOrder() *order {
	return &order{acked: map[audit.Key]bool{}, reached: map[int]int{}}
}

// acknowledge is told of every publish that was answered with OK.
func (o *order) acknowledge(k audit.Key) {
	if k.Seq >= o.reached[k.Producer] {
		o.acked[k] = true
		return
	}
	// It has come, or something later has: then deliver has said so.
}

// deliver is told of every delivery.
func (o *order) deliver(id audit.ID, k audit.Key) {
	switch was, is := string(o.last[:]), string(id[:]); {
	case o.last == audit.ID{}:
	case is == was:
		o.again++
		o.finished = false
		if k != o.key {
			o.violate("%s is both %v and %v", is, o.key, k)
		}
		return
	case is < was:
		o.violate("%v, %s, came after %s, of which it had to be finished", k, is, was)
		return
	case !o.finished:
		o.violate("%v, %s, came before %s was finished", k, is, was)
	}
	o.last, o.key, o.finished = id, k, false
	o.firsts++
	if k.Seq < o.reached[k.Producer] {
		o.violate("%v came after message %d", k, o.reached[k.Producer]-1)
		return
	}
	for seq := o.reached[k.Producer]; seq < k.Seq; seq++ {
		if skipped := (audit.Key{Producer: k.Producer, Seq: seq}); o.acked[skipped] {
			o.violate("%v was acknowledged and skipped", skipped)
			delete(o.acked, skipped)
		}
	}
	o.reached[k.Producer] = k.Seq + 1
	delete(o.acked, k)
}

// finish is told before a FIN is sent.
func (o *order) finish(id audit.ID) {
	if id == o.last {
		o.finished = true
	}
}

// owed is how many messages were acknowledged and have not come.
func (o *order) owed() int { return len(o.acked) }

func (o *order) violate(format string, args ...any) {
	if len(o.found) < maxFound {
		o.found = append(o.found, fmt.Sprintf("%.3fs: ", o.now.Seconds())+fmt.Sprintf(format, args...))
	}
}
