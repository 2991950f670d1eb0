package meta

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Bounds of the history in the metadata. The oldest entries are dropped.
const (
	maxActs     = 5000
	maxActBytes = 4 << 10 // total length of the texts of one act
	maxEvents   = 3000    // of nodes, topics and channels, and as many of leaders and replicas
	eventNames  = 3       // partitions named in one event
)

// Act is an operator action for the audit log. Values returned by State are shared and must not
// be modified.
type Act struct {
	Index    uint64 `json:"index"`              // the Raft index at which it was recorded
	At       int64  `json:"at"`                 // ns since 1970, when it was done, by the clock of Node
	Node     NodeID `json:"node"`               // that received the request
	Actor    string `json:"actor"`              // address of the request
	Identity string `json:"identity,omitempty"` // of the user, if known
	Agent    string `json:"agent,omitempty"`    // program that sent the request
	Verb     string `json:"verb"`               // method and path
	Object   string `json:"object,omitempty"`   // TOPIC, TOPIC/CHANNEL, TOPIC/PARTITION or a node
	Request  string `json:"request,omitempty"`  // content of the request
	Before   string `json:"before,omitempty"`   // the object's previous metadata
	After    string `json:"after,omitempty"`    // likewise afterwards, if it differs
	Reason   string `json:"reason,omitempty"`   // given by the user
	Status   int    `json:"status"`             // of the answer, as in HTTP
}

func (a *Act) bytes() int {
	n := 0
	for _, s := range []string{string(a.Node), a.Actor, a.Identity, a.Agent, a.Verb, a.Object, a.Request, a.Before, a.After, a.Reason} {
		n += len(s)
	}
	return n
}

// Verbs of the acts that are not an operator's: changes of the members that a node has asked for, or
// that the metadata leader has decided.
const (
	ActJoin    = "JOIN"    // a node joins, or is refused
	ActPromote = "PROMOTE" // a member gets a vote
	ActMove    = "MOVE"    // a member gets another address, or loses its own
	ActExpel   = "EXPEL"   // a member is removed without an operator
)

// RecordAct adds to the audit log. A change of the members, and a refused join, is also an event.
type RecordAct struct {
	Act Act `json:"act"` // its Index is ignored
}

func (c RecordAct) validate() error { return c.Act.validate() }

func (a *Act) validate() error {
	if a.Verb == "" || a.bytes() > maxActBytes {
		return fmt.Errorf("%w: act %q of %d bytes", failure.InvalidConfig, a.Verb, a.bytes())
	}
	return nil
}

func (c RecordAct) apply(s *State, _ *Result) error {
	a := c.Act
	a.Index = s.index
	s.past.acts = keepAct(s.past.acts, &a)
	return nil
}

// keep appends to a list and drops the oldest entries beyond most. Lists returned before do not
// change.
func keep[T any](all []T, one T, most int) []T {
	all = append(all, one)
	return all[max(0, len(all)-most):]
}

// Event is a change of the cluster's state, whatever caused it.
type Event struct {
	Index  uint64 `json:"index"`            // the Raft index of the change
	At     int64  `json:"at"`               // ns since 1970, by the clock of the metadata leader
	Kind   string `json:"kind"`             // for programs, such as node_down
	Object string `json:"object,omitempty"` // a node, a topic, a channel or partitions
	What   string `json:"what"`             // for people
}

// past is the history in a state: append-only lists by index.
type past struct {
	acts   []*Act
	events []*Event
	flux   []*Event // about leaders and replicas
}

// clip returns lists to which appends are not visible elsewhere.
func (p past) clip() past {
	return past{slices.Clip(p.acts), slices.Clip(p.events), slices.Clip(p.flux)}
}

// Journal is the history in the metadata.
type Journal struct{ past past }

// JournalOf returns the journal of a state.
func JournalOf(s *State) Journal { return Journal{s.past.clip()} }

// Acts returns the acts of operators, the oldest first.
func (j Journal) Acts() []*Act { return j.past.acts }

// Events returns the events after an index, oldest first.
func (j Journal) Events(after uint64) []*Event {
	var all []*Event
	for _, list := range [][]*Event{j.past.events, j.past.flux} {
		i, _ := slices.BinarySearchFunc(list, after+1, func(e *Event, index uint64) int {
			switch {
			case e.Index < index:
				return -1
			case e.Index > index:
				return 1
			}
			return 0
		})
		all = append(all, list[i:]...)
	}
	slices.SortStableFunc(all, func(a, b *Event) int { return int(int64(a.Index) - int64(b.Index)) })
	return all
}

// restoreAct appends an act from a snapshot.
func (p *past) restoreAct(a *Act, index uint64) error {
	if err := a.validate(); err != nil {
		return err
	}
	if n := len(p.acts); a.Index > index || n > 0 && p.acts[n-1].Index >= a.Index {
		return fmt.Errorf("act %d out of order", a.Index)
	}
	p.acts = append(p.acts, a)
	return nil
}

// encode writes the lines of a snapshot about the history.
func (p *past) encode(e *json.Encoder) error {
	for _, a := range p.acts {
		if err := e.Encode(a); err != nil {
			return err
		}
	}
	for _, list := range [][]*Event{p.events, p.flux} {
		for _, x := range list {
			if err := e.Encode(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// decode reads these lines.
func (p *past) decode(head *snapshotHead, next func(any) error) error {
	if head.Acts < 0 || head.Acts > maxActs || head.Events < 0 || head.Events > maxEvents || head.Flux < 0 || head.Flux > maxEvents {
		return fmt.Errorf("%d acts, %d and %d events", head.Acts, head.Events, head.Flux)
	}
	for range head.Acts {
		a := &Act{}
		if err := next(a); err != nil {
			return fmt.Errorf("act: %w", err)
		}
		if err := p.restoreAct(a, head.Index); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		n  int
		to *[]*Event
	}{{head.Events, &p.events}, {head.Flux, &p.flux}} {
		for range list.n {
			e := &Event{}
			if err := next(e); err != nil {
				return fmt.Errorf("event: %w", err)
			}
			if n := len(*list.to); e.Kind == "" || e.Index > head.Index || n > 0 && (*list.to)[n-1].Index >= e.Index {
				return fmt.Errorf("event %d out of order", e.Index)
			}
			*list.to = append(*list.to, e)
		}
	}
	return nil
}
