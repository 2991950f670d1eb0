package topic

// Reserved reports whether the client gets no other message, from any partition, before it has answered what it has: the
// consumer has an isolated message, or is reserved for one. See channel.Isolation.
func (k *Consumer) Reserved() bool { return k.reserved.Load() }

// reservedLocked determines after a take without messages whether the consumer is reserved. Then it does not wait for
// messages: its client takes again when it has answered what it has, and others get what it was woken for.
func (k *Consumer) reservedLocked() bool {
	c := k.ch
	holds := c.state.Isolation().Holds(k.id)
	k.reserved.Store(holds)
	if !holds {
		return false
	}
	c.waiting.remove(k)
	c.waiters.Store(c.waiting.len())
	k.idle.Store(false)
	k.yields, c.holding = true, true
	return true
}

// releaseReservedLocked returns the reserved consumers that must take again: they are no longer reserved, or have answered
// everything.
func (c *Channel) releaseReservedLocked() (freed []*Consumer) {
	if !c.holding {
		return nil
	}
	c.holding = false
	for _, k := range c.consumers {
		if !k.reserved.Load() {
			continue
		}
		c.holding = true
		if !c.state.Isolation().Holds(k.id) || c.state.TakenBy(k.id).Len() == 0 && !companyOf(k) {
			freed = append(freed, k)
		}
	}
	return freed
}

// companyOf reports whether the consumer's client has messages in flight from other partitions.
func companyOf(k *Consumer) bool { return k.o.Company != nil && k.o.Company() }

// companyLocked is companyOf for a consumer by its number.
func (c *Channel) companyLocked(id uint64) bool {
	for _, k := range c.consumers {
		if k.id == id {
			return companyOf(k)
		}
	}
	return false
}
