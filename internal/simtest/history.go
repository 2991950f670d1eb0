package simtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Fate is the answer that a publisher got for a message.
type Fate uint8

// The fates of a message.
const (
	Open    Fate = iota // no answer yet
	Acked               // it is committed
	Unknown             // it may be committed, now or later
	Failed              // it was refused, and is never committed later
)

// History records the calls of publishers, the answers, and the offsets, for
// one log. It may be used by many goroutines.
type History struct {
	mu       sync.Mutex // guards what follows
	messages map[string]*message
	places   map[uint64]string // acknowledged offsets
	last     map[int]uint64    // one past a publisher's last acknowledged offset
	next     map[int]int       // a publisher's next number
	counts   [4]int
	acked    []acked // in their original form
	wrong    []string
}

// acked is a message that was acknowledged.
type acked struct {
	name string
	at   uint64
}

type message struct {
	fate  Fate
	at    uint64 // of Acked
	epoch uint64
	after uint64 // its publisher knew of all messages below at the time of the call
	seen  bool
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		messages: map[string]*message{}, places: map[uint64]string{},
		last: map[int]uint64{}, next: map[int]int{},
	}
}

// Call notes that a publisher publishes, and returns the name of its message.
func (h *History) Call(publisher int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next[publisher]++
	name := fmt.Sprintf("p%d-%d", publisher, h.next[publisher])
	h.messages[name] = &message{after: h.last[publisher]}
	h.counts[Open]++
	return name
}

// Resolve notes the fate of a message, and for an acknowledged one its offset
// and the epoch of the leader that acknowledged it.
func (h *History) Resolve(name string, f Fate, at, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.messages[name]
	if m == nil || m.fate != Open {
		h.wrongLocked("%s was settled as %d without a call, or again", name, f)
		return
	}
	m.fate, m.at, m.epoch = f, at, epoch
	h.counts[Open]--
	h.counts[f]++
	if f != Acked {
		return
	}
	if other, taken := h.places[at]; taken {
		h.wrongLocked("%s and %s were both acknowledged at %d", other, name, at)
	}
	h.places[at] = name
	h.acked = append(h.acked, acked{name, at})
	if at < m.after {
		h.wrongLocked("%s is at %d, and its publisher knew of %d before", name, at, m.after)
	}
	p := publisherOf(name)
	h.last[p] = max(h.last[p], at+1)
}

func publisherOf(name string) (p int) {
	_, _ = fmt.Sscanf(name, "p%d-", &p)
	return p
}

func (h *History) wrongLocked(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// called reports whether a message of that name was published.
func (h *History) called(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.messages[name] != nil
}

// Acknowledged calls f with each acknowledged message, in any order. f must not
// use the history.
func (h *History) Acknowledged(f func(name string, at, epoch uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, m := range h.messages {
		if m.fate == Acked {
			f(name, m.at, m.epoch)
		}
	}
}

// ackedFrom returns the acknowledged messages without the first n. The caller must
// not change them.
func (h *History) ackedFrom(n int) []acked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked[n:]
}

// Counts returns how many messages were acknowledged, are unknown, failed and
// are open.
func (h *History) Counts() (acked, unknown, failed, open int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[Acked], h.counts[Unknown], h.counts[Failed], h.counts[Open]
}

// Copy is the name of a copy of a message for one channel.
const Copy = "copy"

// elsewhere reports whether a message was acknowledged at another offset.
func (h *History) elsewhere(name string, at uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.messages[name]
	return m != nil && m.fate == Acked && m.at != at
}

// ackedIn reports whether a message was acknowledged in [from, end), of some by their names.
func (h *History) ackedIn(from, end uint64, of func(name string) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ; from < end; from++ {
		if name, ok := h.places[from]; ok && of(name) {
			return true
		}
	}
	return false
}

// Check compares the history with the resulting log, from offset first on, and returns the
// differences: messages that are not at the offset at which they were acknowledged, that were never
// published, that are stored twice, or whose publish failed. Messages below first are not checked.
func (h *History) Check(first uint64, log []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, name := range log {
		if name == Copy {
			continue
		}
		m := h.messages[name]
		switch {
		case m == nil:
			h.wrongLocked("%q at %d was not published", name, first+uint64(i)) //nolint:gosec // an index
			continue
		case m.seen:
			h.wrongLocked("%s is twice in the log, again at %d", name, first+uint64(i)) //nolint:gosec // an index
		case m.fate == Failed:
			h.wrongLocked("%s is at %d and its publisher was told that it failed", name, first+uint64(i)) //nolint:gosec // an index
		}
		m.seen = true
	}
	for name, m := range h.messages {
		if m.fate != Acked || m.at < first {
			continue
		}
		if i := m.at - first; i >= uint64(len(log)) || log[i] != name {
			h.wrongLocked("%s was acknowledged at %d in epoch %d and is not there", name, m.at, m.epoch)
		}
	}
	slices.Sort(h.wrong)
	return slices.Compact(h.wrong)
}

// Report joins the first few violations.
func Report(wrong []string) string {
	const most = 12
	more := ""
	if len(wrong) > most {
		more = fmt.Sprintf("\nand %d more", len(wrong)-most)
		wrong = wrong[:most]
	}
	return strings.Join(wrong, "\n") + more
}
