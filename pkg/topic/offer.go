package topic

import "time"

// Offer is Publish for a caller who knows what to do with messages that are not
// taken: the refusal is returned, nothing happened, and done is not called.
func (p *Partition) Offer(msgs []Message, done func(Receipt)) error {
	e := publishes.Get().(*publish)
	e.p, e.msgs, e.count, e.since, e.done = p, msgs, len(msgs), time.Now(), done
	err := p.out.Append(e)
	if err != nil {
		*e = publish{}
		publishes.Put(e)
	}
	return err
}
