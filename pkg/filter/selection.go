package filter

import "sync/atomic"

// Selection decides which messages a channel gets: by its filter, which may change at any
// time. It counts the messages that were skipped. The zero value chooses all. It is safe
// for concurrent use.
type Selection struct {
	now    atomic.Pointer[choice] // nil: all
	left   atomic.Uint64
	failed atomic.Uint64
}

// choice is a filter, or why it cannot be used.
type choice struct {
	text   string
	filter *Filter
	err    error
}

// Set sets the filter; "" chooses all messages. A text that does not compile, for example
// one that another release accepted, breaks the selection: see Broken. Set reports whether
// the text has changed.
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

// Broken returns why the filter cannot be used, or nil. While it is broken, no message may
// be delivered or skipped.
func (s *Selection) Broken() error {
	if c := s.now.Load(); c != nil {
		return c.err
	}
	return nil
}

// Chooses reports whether a message is to be delivered, and counts it if it is skipped. It is called
// before each delivery, also of a message that was taken before, because that does not mean that a
// consumer received it. tagOf returns the tag of a header; it is called only if the filter uses the
// tag.
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

// Counts are the counters of a Selection.
type Counts struct {
	Left   uint64 // messages that were not chosen
	Failed uint64 // of these, because the evaluation failed
}

// Counts returns the counters.
func (s *Selection) Counts() Counts { return Counts{s.left.Load(), s.failed.Load()} }
