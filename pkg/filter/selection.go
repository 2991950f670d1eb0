package filter

import "sync/atomic"

// Selection is which messages a channel gets: the choice of its filter, which may change at
// any time, and how many it has left out. The zero value chooses all. Its methods may be
// called by many goroutines.
type Selection struct {
	now    atomic.Pointer[choice] // nil: all
	left   atomic.Uint64
	failed atomic.Uint64
}

// choice is a filter, or why there is none that can be used.
type choice struct {
	text   string
	filter *Filter
	err    error
}

// Set changes the filter; "": all messages are chosen. A text that does not compile, as one
// that another release of the program took, breaks the selection: see Broken. It returns
// whether it was another one before.
func (s *Selection) Set(text string) (changed bool) {
	switch was := s.now.Load(); {
	case was == nil && text == "", was != nil && was.text == text:
		return false
	case text == "":
		s.now.Store(nil)
	default:
		f, err := Compile(text)
		s.now.Store(&choice{text, f, err})
	}
	return true
}

// All reports whether all messages are chosen.
func (s *Selection) All() bool { return s.now.Load() == nil }

// Broken returns why the filter cannot be used; nil: it can. Nothing may be delivered, nor
// left out, until there is another.
func (s *Selection) Broken() error {
	if c := s.now.Load(); c != nil {
		return c.err
	}
	return nil
}

// Chooses reports whether a message is to be delivered, and counts it if it is left out. It is asked
// before each delivery: how often a message was taken does not say whether anybody got it. tagOf
// returns the tag of a header; it is called only if it matters.
func (s *Selection) Chooses(m *Message, tagOf func(header []byte) string) bool {
	c := s.now.Load()
	if c == nil || c.filter == nil {
		return true
	}
	if c.filter.UsesTag() {
		m.Tag = tagOf(m.Header)
	}
	chosen, err := c.filter.Match(m)
	if err != nil {
		s.failed.Add(1)
	}
	if !chosen {
		s.left.Add(1)
	}
	return chosen
}

// Counts are the figures of a Selection.
type Counts struct {
	Left   uint64 // messages that were not chosen
	Failed uint64 // of these: the evaluation failed
}

// Counts returns the figures.
func (s *Selection) Counts() Counts { return Counts{s.left.Load(), s.failed.Load()} }

// Plus returns the sums of two.
func (c Counts) Plus(d Counts) Counts { return Counts{c.Left + d.Left, c.Failed + d.Failed} }
