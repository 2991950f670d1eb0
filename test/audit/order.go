package audit

import (
	"fmt"
	"time"
)

// Order holds one channel on one partition of an ordered topic to its promises:
// one message at a time, in the order of the log, each producer's in the order in
// which they were acknowledged, and a message again only before any that follows
// it. Ids of one partition sort as its log does. It is not safe for concurrent use.
type Order struct {
	last     ID // delivered; zero: none
	key      Key
	finished bool // a FIN for it was sent
	Again    int  // deliveries that were not the first
	Firsts   int
	acked    map[Key]bool // acknowledged and not delivered
	reached  map[int]int  // by producer: one past the highest number delivered
	Found    []string
	Now      time.Duration // set before the events of that time are reported
}

// maxBroken limits how many broken guarantees are reported.
const maxBroken = 10

// NewOrder returns an Order without events.
func NewOrder() *Order {
	return &Order{acked: map[Key]bool{}, reached: map[int]int{}}
}

// Acknowledge reports a publish that was answered with OK.
func (o *Order) Acknowledge(k Key) {
	if k.Seq >= o.reached[k.Producer] {
		o.acked[k] = true
		return
	}
	// It was delivered, or a later message was: Deliver has already reported that.
}

// Deliver reports a delivery.
func (o *Order) Deliver(id ID, k Key) {
	switch was, is := string(o.last[:]), string(id[:]); {
	case o.last == ID{}:
	case is == was:
		o.Again++
		o.finished = false
		if k != o.key {
			o.Violate("%s is both %v and %v", is, o.key, k)
		}
		return
	case is < was:
		o.Violate("%v, %s, came after %s, of which it had to be finished", k, is, was)
		return
	case !o.finished:
		o.Violate("%v, %s, came before %s was finished", k, is, was)
	}
	o.last, o.key, o.finished = id, k, false
	o.Firsts++
	if k.Seq < o.reached[k.Producer] {
		o.Violate("%v came after message %d", k, o.reached[k.Producer]-1)
		return
	}
	for seq := o.reached[k.Producer]; seq < k.Seq; seq++ {
		if skipped := (Key{Producer: k.Producer, Seq: seq}); o.acked[skipped] {
			o.Violate("%v was acknowledged and skipped", skipped)
			delete(o.acked, skipped)
		}
	}
	o.reached[k.Producer] = k.Seq + 1
	delete(o.acked, k)
}

// Finish is called before a FIN is sent.
func (o *Order) Finish(id ID) {
	if id == o.last {
		o.finished = true
	}
}

// Owed is the number of messages that were acknowledged and not delivered.
func (o *Order) Owed() int { return len(o.acked) }

// Violate records a broken guarantee.
func (o *Order) Violate(format string, args ...any) {
	if len(o.Found) < maxBroken {
		o.Found = append(o.Found, fmt.Sprintf("%.3fs: ", o.Now.Seconds())+fmt.Sprintf(format, args...))
	}
}
