package dedup

// claims is a set of hashes with open addressing: the ids of publishes in progress. They are added
// and removed with each message, for which a map takes several times as long. The zero set is
// empty; it is not safe for concurrent use.
type claims struct {
	slots []claim // a power of two of them, at least half of them free
	count int
}

type claim struct {
	hash Hash
	used bool
}

// Add adds a hash and reports whether it is new.
func (c *claims) Add(h *Hash) bool {
	if 2*(c.count+1) > len(c.slots) {
		c.resize(max(fewest, 2*len(c.slots)))
	}
	i, there := c.lookup(h)
	if there {
		return false
	}
	c.slots[i] = claim{*h, true}
	c.count++
	return true
}

// Remove removes a hash, if it is present.
func (c *claims) Remove(h *Hash) {
	if c.count == 0 {
		return
	}
	i, there := c.lookup(h)
	if !there {
		return
	}
	c.count--
	if len(c.slots) > fewest && c.count <= len(c.slots)/16 {
		c.slots[i] = claim{}
		c.resize(len(c.slots) / 4)
		return
	}
	mask := len(c.slots) - 1
	for j := (i + 1) & mask; c.slots[j].used; j = (j + 1) & mask { // those after it must still be found
		home := c.home(&c.slots[j].hash)
		if (j-home)&mask >= (j-i)&mask {
			c.slots[i] = c.slots[j]
			i = j
		}
	}
	c.slots[i] = claim{}
}

// home returns where the search for a hash begins.
func (c *claims) home(h *Hash) int { return int(h.tag()) & (len(c.slots) - 1) }

// lookup returns the slot of a hash, or the free one where it would be.
func (c *claims) lookup(h *Hash) (slot int, there bool) {
	for i := c.home(h); ; i = (i + 1) & (len(c.slots) - 1) {
		switch s := &c.slots[i]; {
		case !s.used:
			return i, false
		case s.hash == *h:
			return i, true
		}
	}
}

// resize moves the hashes to n slots.
func (c *claims) resize(n int) {
	was := c.slots
	c.slots = make([]claim, n)
	for i := range was {
		if was[i].used {
			to, _ := c.lookup(&was[i].hash)
			c.slots[to] = was[i]
		}
	}
}
