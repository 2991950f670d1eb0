package topic

// ConsumerCounts are a consumer's counters.
type ConsumerCounts struct {
	InFlight                                int64
	Delivered, Finished, Requeued, TimedOut uint64
}

// Counts returns the consumer's counters.
func (k *Consumer) Counts() ConsumerCounts {
	return ConsumerCounts{k.inFlight.Load(), k.delivered.Load(), k.finished.Load(), k.requeued.Load(), k.timedOut.Load()}
}

// Add adds another consumer's counters.
func (c *ConsumerCounts) Add(o ConsumerCounts) {
	c.InFlight += o.InFlight
	c.Delivered += o.Delivered
	c.Finished += o.Finished
	c.Requeued += o.Requeued
	c.TimedOut += o.TimedOut
}
