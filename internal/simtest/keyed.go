package simtest

// NewKeyedChannel returns the record of a channel ordered by key: like NewChannel for the messages
// of each key, with no order between keys. keyOf returns the key for a message's name.
func NewKeyedChannel(h *History, keyOf func(name string) string) *Channel {
	c := NewChannel(h, false)
	c.keyOf, c.lines = keyOf, map[string]*Channel{}
	return c
}

// lineLocked returns the record of the ordered messages with a message's key; nil:
// none.
func (c *Channel) lineLocked(name string) *Channel {
	if c.keyOf == nil {
		return nil
	}
	key := c.keyOf(name)
	line := c.lines[key]
	if line == nil {
		line = NewChannel(c.history, true)
		line.among = func(name string) bool { return c.keyOf(name) == key }
		c.lines[key] = line
	}
	return line
}

// passesLocked reports whether an ordered channel skips a message by a delivery.
func (c *Channel) passesLocked(at uint64) bool {
	switch {
	case c.among != nil:
		return c.history.ackedIn(c.next, at, c.among)
	case c.copies:
		return c.history.ackedIn(c.next, at, func(string) bool { return true })
	}
	return true
}
