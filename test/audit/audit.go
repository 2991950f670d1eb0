// Package audit checks, from what clients observed, whether a work queue kept its guarantees through
// crashes.
//
// The caller reports every event in the order in which the clients saw it: a publish before it is
// sent, its answer, every delivery, every FIN and REQ before it is sent, every connection that opens
// and closes, every kill. The package knows nothing of sockets, processes or clocks; times are
// arguments.
//
// It checks that
//
//   - a message whose publish was acknowledged is delivered and finished on every channel, and one
//     that reached one channel reaches all of them;
//   - every delivered message was published, is unaltered, and has an id of its own;
//   - every redelivery has a cause: the message was requeued, its connection closed, its timeout
//     passed, its broker was killed or its cluster disturbed; and for a finished message, that this
//     happened within Window of the FIN, or the connection was cut before the FIN is known to have
//     arrived;
//   - a deferred message is not delivered before its time.
//
// An Audit is not safe for concurrent use.
package audit

import (
	"fmt"
	"time"
)

// Key names a message: the Seq-th of a producer, counted from 0.
type Key struct {
	Producer int
	Seq      int
}

// String returns the key for a message to people.
func (k Key) String() string { return fmt.Sprintf("message %d of producer %d", k.Seq, k.Producer) }

// ID is a message id as the wire has it.
type ID [16]byte

// Options defines the expectations of an Audit.
type Options struct {
	Producers int
	Channels  []string
	// Window is how long before a kill a FIN may have been sent and be
	// forgotten, while the machine does not stall.
	Window time.Duration
	// Grace is how long before its connection was cut a FIN may have been sent
	// and not have arrived.
	Grace time.Duration
	// Notice is how much later than a redelivery the end of the connection that had the message
	// may be observed: in a cluster, different nodes report the two.
	Notice time.Duration
	// Partition returns the partition that an id names; nil: there is one.
	Partition func(ID) int
	// MsgTimeout is how long a delivered message may stay unanswered.
	MsgTimeout time.Duration
	// Tolerance is how much earlier than requested a deferred message may be delivered: the
	// resolution of the protocol.
	Tolerance time.Duration
	// Keep is how long the end of a message is remembered in detail. A message
	// that is delivered again later than that is in error whatever the cause.
	Keep time.Duration
}

// Cause explains a delivery that was not the first.
type Cause string

// The causes of a redelivery.
const (
	CauseRequeue    Cause = "requeued"
	CauseDisconnect Cause = "disconnected"
	CauseTimeout    Cause = "timed out"
	CauseKill       Cause = "in flight when the broker was killed"
	CauseWindow     Cause = "finished just before the broker was killed"
	CauseCut        Cause = "finished just before the connection was cut"
	CauseMove       Cause = "in flight when the cluster was disturbed"
	CauseMoveWindow Cause = "finished just before or while the cluster was disturbed"

	CauseMoved       Cause = "in flight when the leader changed"
	CauseMovedWindow Cause = "finished when the leader changed"
	CauseRefused     Cause = "finished too late, as the broker said"
)

// Kind names a broken promise.
type Kind string

// The promises that can be broken.
const (
	Lost       Kind = "lost"           // acknowledged and never delivered
	Half       Kind = "half delivered" // delivered on some channels only
	Unfinished Kind = "unfinished"     // delivered, and not finished at the end
	Invented   Kind = "invented"       // delivered and never published
	Altered    Kind = "altered"        // delivered with another body
	Refused    Kind = "refused"        // delivered though the publish was refused
	TwoIDs     Kind = "two ids"        // one message stored twice
	SharedID   Kind = "shared id"      // one id, two messages
	Twice      Kind = "in flight twice"
	Undone     Kind = "finish undone" // redelivered after a FIN that had to hold
	Early      Kind = "early"         // before its time
	Ancient    Kind = "ancient"       // redelivered long after its end
	Answer     Kind = "bad answer"    // the broker refused something that was right
)

// Violation is a broken promise.
type Violation struct {
	Kind Kind
	At   time.Duration
	What string
}

// String returns the violation for a message to people.
func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3fs: %s", v.Kind, v.At.Seconds(), v.What)
}

// maxViolations bounds how many violations are kept; all are counted.
const maxViolations = 30

// Stats counts the events reported to an Audit.
type Stats struct {
	Published, Acked, Unknown, Refused int
	Recovered                          int // unknown to the publisher, and delivered
	Deferred                           int // published with a delay
	Delivered, Finished, Requeued      int
	Connections, Kills                 int // other disturbances are among the kills
	Redelivered                        map[Cause]int
	Stall                              time.Duration // longest of the machine
	Forgotten                          time.Duration // longest from a FIN to the kill that undid it
	Owed                               int           // known to be stored, and not finished on every channel
	Violations                         int
}

// Audit is the state of the audit.
type Audit struct {
	turmoil
	o          Options
	producers  []producer
	ids        map[ID]Key
	conns      map[int]*conn
	kills      map[int]kill // by round
	doubts     []doubt
	stats      Stats
	renumbered int // how often all messages got other ids
	findings
}

// findings is the promises that were broken.
type findings struct {
	first []Violation
	count int
}

// producer holds the messages from the first that is not forgotten.
type producer struct {
	first    int
	messages []message
}

type message struct {
	outcome   Outcome // 0: not answered yet
	sum       uint64
	notBefore time.Duration
	id, was   ID
	numbering int           // the Renumber that id is known to be behind
	stored    bool          // acknowledged or delivered
	settled   time.Duration // when it was last finished everywhere, or its publish ended unstored; 0: not yet
	places    []place       // by channel
}

// place is the state of a message in one channel.
type place struct {
	deliveries int
	at         time.Duration // of the last delivery
	conn       int           // of the last delivery
	end        end           // of the last delivery
	endAt      time.Duration
	notBefore  time.Duration
	done       bool
	moved      bool // the last delivery was because of a disturbance
	refused    bool // the broker answered that the last FIN was late
	twice      bool // it had been finished before the last FIN
}

type end uint8

const (
	inFlight end = iota
	finished
	requeued
)

type kill struct{ at, stall time.Duration }

type conn struct {
	channel int
	round   int
	state   connState
	at      time.Duration // when it closed
}

type connState uint8

const (
	connOpen connState = iota
	connClean
	connCut
)

// New returns an Audit that has seen nothing.
func New(o Options) *Audit {
	return &Audit{
		turmoil: turmoil{grace: o.Grace}, o: o, producers: make([]producer, o.Producers),
		ids: map[ID]Key{}, conns: map[int]*conn{}, kills: map[int]kill{},
		stats: Stats{Redelivered: map[Cause]int{}},
	}
}

// Stats returns the counts so far.
func (a *Audit) Stats() Stats {
	s := a.stats
	s.Violations = a.count
	s.Kills += len(a.turmoil.all)
	return s
}

// Violations returns the first broken promises that were found.
func (f *findings) Violations() []Violation { return f.first }

func (f *findings) violate(at time.Duration, k Kind, format string, args ...any) {
	f.count++
	if len(f.first) < maxViolations {
		f.first = append(f.first, Violation{k, at, fmt.Sprintf(format, args...)})
	}
}

// find returns a message, nil if it was never published or is forgotten.
func (a *Audit) find(k Key) *message {
	if k.Producer < 0 || k.Producer >= len(a.producers) {
		return nil
	}
	p := &a.producers[k.Producer]
	if i := k.Seq - p.first; i >= 0 && i < len(p.messages) {
		return &p.messages[i]
	}
	return nil
}

// Publish reports a message before it is sent; the messages of a producer are reported in the order
// of their Seq. sum identifies the body; notBefore is the time that follows from the delay, 0 for
// none.
func (a *Audit) Publish(k Key, sum uint64, notBefore time.Duration) {
	p := &a.producers[k.Producer]
	if k.Seq != p.first+len(p.messages) {
		panic("BUG: messages are published in order")
	}
	p.messages = append(p.messages, message{
		sum: sum, notBefore: notBefore, places: make([]place, len(a.o.Channels)),
	})
	a.stats.Published++
	if notBefore > 0 {
		a.stats.Deferred++
	}
}

// Outcome is the publisher's knowledge about a message.
type Outcome uint8

// The outcomes of a publish.
const (
	Acknowledged Outcome = iota + 1 // answered with OK
	Open                            // it is open whether the message was stored
	Rejected                        // answered with an error that means that nothing was stored
)

// Settle reports the outcome of a publish.
func (a *Audit) Settle(now time.Duration, k Key, o Outcome) {
	m := a.find(k)
	m.outcome = o
	switch o {
	case Acknowledged:
		a.stats.Acked++
		a.store(now, m)
		return
	case Open:
		a.stats.Unknown++
		if m.stored {
			a.stats.Recovered++
		}
	case Rejected:
		a.stats.Refused++
		if m.stored {
			a.violate(now, Refused, "%v was delivered", k)
		}
	}
	if !m.stored {
		m.settled = max(now, 1)
	}
}

// store counts a message that must be finished everywhere from now on.
func (a *Audit) store(now time.Duration, m *message) {
	if m.stored {
		return
	}
	m.stored, m.settled = true, 0
	a.stats.Owed++
	a.finishAll(now, m)
}

// finishAll notices when a stored message is finished on every channel.
func (a *Audit) finishAll(now time.Duration, m *message) {
	for i := range m.places {
		if !m.places[i].done {
			return
		}
	}
	if m.settled == 0 {
		a.stats.Owed--
	}
	m.settled = max(now, 1)
}

// Connect reports that a consumer's connection to the round-th broker process
// is open and subscribed. Connections and rounds are numbered upwards.
func (a *Audit) Connect(c, channel, round int) {
	a.conns[c] = &conn{channel: channel, round: round}
	a.stats.Connections++
}

// Close is called before a consumer closes its connection, and when the consumer finds it closed.
// clean means that the broker has confirmed that it read everything that was sent.
func (a *Audit) Close(now time.Duration, c int, clean bool) {
	x := a.conns[c]
	if x == nil || x.state != connOpen {
		return
	}
	x.at, x.state = now, connCut
	if clean {
		x.state = connClean
	}
	a.judge(now, c, x)
}

// Kill is called before the round-th broker process is killed. stall is for how
// long the machine stood still in that round: the window is longer by that.
func (a *Audit) Kill(now time.Duration, round int, stall time.Duration) {
	a.kills[round] = kill{now, stall}
	a.stats.Stall = max(a.stats.Stall, stall)
	a.stats.Kills++
}

// Finish is called before a FIN is sent.
func (a *Audit) Finish(now time.Duration, c int, k Key) {
	a.stats.Finished++
	m, p := a.answer(c, k)
	if p == nil {
		return
	}
	p.end, p.endAt, p.twice, p.done = finished, now, p.done, true
	if m.stored {
		a.finishAll(now, m)
	}
}

// Refuse reports the broker's answer that a FIN came too late: the message is no
// longer in flight on the connection, and is redelivered.
func (a *Audit) Refuse(c int, id ID) {
	k, known := a.ids[id]
	if !known {
		return
	}
	if m, p := a.answer(c, k); p != nil && p.end == finished {
		p.end, p.refused, p.moved = inFlight, true, true
		if p.twice {
			return // then the first one holds
		}
		if m.settled > 0 {
			m.settled = 0
			a.stats.Owed++
		}
		p.done = false
	}
}

// Requeue is called before a REQ is sent.
func (a *Audit) Requeue(now time.Duration, c int, k Key, delay time.Duration) {
	a.stats.Requeued++
	if _, p := a.answer(c, k); p != nil {
		p.end, p.endAt = requeued, now
		p.notBefore = 0
		if delay > 0 {
			p.notBefore = now + delay
		}
	}
}

// answer returns the place of the message that a command on a connection answers; nil if the
// message was delivered on another connection since.
func (a *Audit) answer(c int, k Key) (*message, *place) {
	m := a.find(k)
	if m == nil {
		return nil, nil
	}
	p := &m.places[a.conns[c].channel]
	if p.conn != c {
		return m, nil
	}
	return m, p
}

// Complain reports an error that the broker answered to a valid command.
func (a *Audit) Complain(now time.Duration, what string) {
	a.violate(now, Answer, "%s", what)
}
