package topic

import "time"

// Offered is a publish. Inline may be called once before Offer returns, with a function that
// appends the messages and waits for the disk: the caller of Offer then runs it. nil: the caller
// does not.
type Offered struct {
	Messages []Message
	Done     func(Receipt)
	Inline   func(appendHere func())
}

// Offer appends messages, all or none, and has copied them when it returns; it may wait while too
// much waits to be written. Done is called once, possibly before Offer returns, and must not
// block. An error is a refusal: nothing happened, and Done is not called.
func (p *Partition) Offer(o Offered) error {
	e := publishes.Get().(*publish)
	e.p, e.msgs, e.count, e.since, e.done, e.inline = p, o.Messages, len(o.Messages), time.Now(), o.Done, o.Inline
	err := p.out.Append(e)
	if err != nil {
		*e = publish{}
		publishes.Put(e)
	}
	return err
}
