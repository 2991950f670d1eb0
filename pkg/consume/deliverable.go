package consume

import (
	"time"

	"github.com/brokerd/brokerd/pkg/relay"
)

// deliveredSources records the sources of the messages that Take has delivered since the last call of
// Deliverable. Take's goroutine uses it.
type deliveredSources struct {
	local  []*localSource
	relays []*relay.Relay
}

// add adds a source by its number.
func (h *deliveredSources) add(s *Sources, i int) {
	if i < len(s.local) {
		if n := len(h.local); n == 0 || h.local[n-1] != s.local[i] {
			h.local = append(h.local, s.local[i])
		}
		return
	}
	if r, n := s.Relays[i-len(s.local)], len(h.relays); n == 0 || h.relays[n-1] != r {
		h.relays = append(h.relays, r)
	}
}

// may reports whether all these messages may be written to a socket at now.
func (h *deliveredSources) may(now time.Time) bool {
	for _, k := range h.local {
		if k.gone.Load() || !k.Leased(now) {
			return false
		}
	}
	for _, r := range h.relays {
		if !r.Steady(now) || r.Gone() {
			return false
		}
	}
	return true
}

func (h *deliveredSources) forget() {
	clear(h.local)
	clear(h.relays)
	h.local, h.relays = h.local[:0], h.relays[:0]
}

// Deliverable reports whether the messages returned by Take since the last call may be written
// to the client at now. The process may have been paused, and a new leader may be delivering
// the same messages: then none may be written. They stay in flight until the subscription is
// closed, which must happen soon. Call it from Take's goroutine.
//
// A relayed message was covered by the leader's lease when it was sent. How long ago that was
// is unknown here, but a pause of this process is detected.
func (s *Subscription) Deliverable(now time.Time) bool {
	ok := s.delivered.may(now)
	s.delivered.forget()
	return ok
}
