package trace

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// MaxFound limits the messages found by a trace id or a key, and maxEvents the events of one
// answer.
const (
	MaxFound  = 100
	maxEvents = 20_000
)

// Query asks for messages by id, and for messages of a topic that were published with a trace id
// or a key. Copies and their originals are found together.
type Query struct {
	Messages    []Message `json:"messages,omitempty"`
	Incarnation uint64    `json:"incarnation,omitempty"` // the topic of what follows
	TraceID     uint64    `json:"trace_id,omitempty"`    // 0: none
	KeyHash     uint64    `json:"key_hash,omitempty"`    // 0: none
}

// Found is the answer of a node.
type Found struct {
	Events    []Event   `json:"events"`   // each of one message; in the order of recording
	Messages  []Message `json:"messages"` // requested or found, with copies and originals
	Truncated bool      `json:"truncated,omitempty"`
}

// Find returns the stored events of messages.
func (s *Store) Find(q Query) Found {
	g := group{q: q, links: map[Message][]Message{}, wanted: map[Message]bool{}}
	if s == nil {
		return g.found(nil)
	}
	s.asking.Lock() // one query at a time: each reads all files twice
	defer s.asking.Unlock()
	for _, m := range q.Messages {
		g.wanted[m] = true
	}
	s.each(g.learn)
	g.close()
	events := latest{dropped: g.truncated}
	s.each(func(e *Event) {
		if e.count() == 1 {
			if g.wanted[e.Message] {
				events.add(*e)
			}
			return
		}
		for m := range g.wanted {
			if e.has(m) {
				one := *e
				one.Message, one.Count = m, 0
				events.add(one)
			}
		}
	})
	f := g.found(events.last())
	f.Truncated = events.dropped
	return f
}

// latest keeps the last maxEvents of the added events.
type latest struct {
	events  []Event
	dropped bool
}

func (l *latest) add(e Event) {
	if len(l.events) == 2*maxEvents {
		l.events = append(l.events[:0], l.last()...)
	}
	l.events = append(l.events, e)
}

func (l *latest) last() []Event {
	if extra := len(l.events) - maxEvents; extra > 0 {
		l.dropped = true
		return l.events[extra:]
	}
	return l.events
}

// group holds the messages of a query.
type group struct {
	q         Query
	links     map[Message][]Message // between copies and their originals
	wanted    map[Message]bool
	truncated bool
}

// learn adds the messages of an event to the group.
func (g *group) learn(e *Event) {
	if e.What != Published {
		return
	}
	if e.IsCopy {
		of := Message{e.Message.Incarnation, e.CopyOf}
		g.links[of] = append(g.links[of], e.Message)
		g.links[e.Message] = append(g.links[e.Message], of)
	}
	if e.Message.Incarnation != g.q.Incarnation || g.wanted[e.Message] {
		return
	}
	if g.q.TraceID != 0 && e.TraceID == g.q.TraceID || g.q.KeyHash != 0 && e.KeyHash == g.q.KeyHash {
		if len(g.wanted) >= MaxFound {
			g.truncated = true
			return
		}
		g.wanted[e.Message] = true
	}
}

// close adds the copies and originals of all requested messages.
func (g *group) close() {
	for todo := slices.Collect(maps.Keys(g.wanted)); len(todo) > 0; {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, other := range g.links[m] {
			if !g.wanted[other] {
				g.wanted[other] = true
				todo = append(todo, other)
			}
		}
	}
}

func (g *group) found(events []Event) Found {
	f := Found{Events: events, Messages: slices.Collect(maps.Keys(g.wanted))}
	slices.SortFunc(f.Messages, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.ID, b.ID))
	})
	return f
}

// Noted is an event with the node that recorded it.
type Noted struct {
	Event
	Node string
}

// Life holds the events of one message and its copies, in order of time.
type Life struct {
	Message Message // the original of the copies
	Events  []Noted
}

// Lives merges the answers of several nodes, by node, into the lives of messages. A copy is part
// of the life of its original.
func Lives(found map[string]Found) []Life {
	origin := map[Message]Message{}
	for _, f := range found {
		for i := range f.Events {
			if e := &f.Events[i]; e.IsCopy {
				origin[e.Message] = Message{e.Message.Incarnation, e.CopyOf}
			}
		}
	}
	root := func(m Message) Message {
		for range len(origin) { // guards against an endless loop
			of, ok := origin[m]
			if !ok {
				break
			}
			m = of
		}
		return m
	}
	lives := map[Message]*Life{}
	for _, node := range slices.Sorted(maps.Keys(found)) {
		for _, e := range found[node].Events {
			m := root(e.Message)
			l := lives[m]
			if l == nil {
				l = &Life{Message: m}
				lives[m] = l
			}
			l.Events = append(l.Events, Noted{e, node})
		}
	}
	out := make([]Life, 0, len(lives))
	for _, l := range lives {
		l.arrange()
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Life) int {
		return cmp.Or(cmp.Compare(a.Message.Incarnation, b.Message.Incarnation), cmp.Compare(a.Message.ID, b.Message.ID))
	})
	return out
}

// arrange sorts events by time, and sets the attempt of events that end a delivery.
func (l *Life) arrange() {
	slices.SortStableFunc(l.Events, func(a, b Noted) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(early(a.What), early(b.What)))
	})
	type place struct {
		channel string
		id      Message
	}
	last, sent := map[place]uint16{}, map[Message]bool{}
	for i := range l.Events {
		e := &l.Events[i]
		at := place{e.Channel, e.Message}
		switch {
		case e.What == Delivered:
			last[at] = e.Attempt
			if !sent[e.Message] {
				sent[e.Message] = true
				l.commitBefore(i)
			}
		case e.Attempt == 0 && e.Channel != "":
			e.Attempt = last[at]
		}
	}
}

// commitBefore moves a commit before the delivery at i: both are recorded at the same time,
// independently of each other.
func (l *Life) commitBefore(i int) {
	d := l.Events[i]
	for j := i + 1; j < len(l.Events); j++ {
		e := l.Events[j]
		if e.What == Committed && e.Message == d.Message && e.Node == d.Node {
			e.Time = d.Time
			copy(l.Events[i+1:j+1], l.Events[i:j])
			l.Events[i] = e
			return
		}
	}
}

// early sorts the events that begin a life before others recorded at the same time.
func early(w What) What { return min(w, Delivered) }

// When returns the time of an event.
func (e *Event) When() time.Time { return time.Unix(0, e.Time) }
