package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/traffic"
)

// choreMessages is how many messages a scenario of this file publishes.
const choreMessages = 60

// playDedup publishes messages with dedup ids while the leader is killed, and then all nodes, and
// publishes all of them again: each must be stored once.
func playDedup(st *stage) {
	c := steps.Need(newChore(st, "once", map[string]any{"dedup_window": "1h"}))
	all := texts("id", choreMessages)
	half := len(all) / 2
	steps.Must(c.meanwhile(all[:half], plain, c.killLeader))
	steps.Must(c.meanwhile(all[half:], plain, func() error { return errors.Join(st.kill(st.c.Nodes...), st.start(st.c.Nodes...)) }))
	for _, text := range all {
		steps.Must(c.publish(text, nil))
	}
	st.say = append(st.say, fmt.Sprintf("%d messages stored once", len(all)))
	steps.Must(errors.Join(c.stored(all), st.whole(c.topic), st.identical(c.topic)))
}

// playDeadLetters kills leaders while messages have their last attempts: each message must become
// one dead letter, and must be brought back to its channel only.
func playDeadLetters(st *stage) {
	c := steps.Need(newChore(st, "orders", map[string]any{}))
	steps.Must(errors.Join(c.command("channel", "create", "orders/bill", "--max-attempts", "2"), c.command("channel", "create", "orders/mail")))
	all := texts("poison", choreMessages)
	c.keep("bill", true)
	bill, mail := c.consume("bill"), c.consume("mail")
	defer bill.Dismiss()
	defer mail.Dismiss()
	steps.Must(c.meanwhile(all, plain, c.killLeader))
	steps.Must(errors.Join(c.letters(all), c.killLeader(), c.letters(all)))
	c.keep("bill", false)
	st.say = append(st.say, fmt.Sprintf("%d dead letters redriven", len(all)))
	steps.Must(errors.Join(c.command("dlq", "redrive", "orders/bill", "--rate", "none"), c.delivered("bill", all), c.letters(nil), c.delivered("mail", all)))
}

// playExpired kills leaders while messages expire: each message must become one dead letter of the
// channel that wants expired messages, and none of the other channel, and must be brought back to
// its channel only.
func playExpired(st *stage) {
	c := steps.Need(newChore(st, "offers", map[string]any{}))
	steps.Must(errors.Join(c.command("channel", "create", "offers/bill", "--on-expired", "dead-letter"), c.command("channel", "create", "offers/mail")))
	all := texts("offer", choreMessages)
	c.keep("bill", true)
	bill := c.consume("bill")
	defer bill.Dismiss()
	brief := func(int) map[string]any { return map[string]any{"ttl_ms": 1000} }
	steps.Must(c.meanwhile(all, brief, c.killLeader))
	steps.Must(errors.Join(c.letters(all), c.killLeader(), c.letters(all)))
	c.keep("bill", false)
	mail := c.consume("mail")
	defer mail.Dismiss()
	st.say = append(st.say, fmt.Sprintf("%d expired messages became dead letters and were redriven", len(all)))
	steps.Must(errors.Join(c.command("dlq", "redrive", "offers/bill", "--rate", "none"), c.delivered("bill", all), c.letters(nil), c.only("mail", nil)))
}

// keyOrder judges the deliveries of a channel with order by key to one consumer, and answers them.
// The messages are named KEY-NUMBER. Some are requeued.
type keyOrder struct {
	random *rand.Rand
	keys   map[string]keyState
	found  []string // deliveries that must not have happened
}

// keyState is the state of one key.
type keyState struct {
	last     int  // the number that was delivered last; numbers begin at 1
	finished bool // its FIN was sent
}

// deliver checks a delivery, and returns whether to requeue the message.
func (o *keyOrder) deliver(text string) (again bool) {
	o.judge(text)
	again = o.random.IntN(4) == 0
	o.answered(text, again)
	return again
}

// of splits a text into its key and its number.
func (o *keyOrder) of(text string) (key string, n int) {
	key, digits, _ := strings.Cut(text, "-")
	n, _ = strconv.Atoi(digits) // the text was created by the test
	return key, n
}

func (o *keyOrder) judge(text string) {
	key, n := o.of(text)
	switch k := o.keys[key]; {
	case n > k.last+1 || n == k.last+1 && k.last > 0 && !k.finished:
		o.found = append(o.found, fmt.Sprintf("%s was delivered, %d before it has not been finished", text, k.last))
	case n < k.last:
		o.found = append(o.found, fmt.Sprintf("%s was redelivered after %d", text, k.last))
	}
}

// answered records the answer to the last delivery of a key. A message stays finished once its FIN
// has reached the broker.
func (o *keyOrder) answered(text string, again bool) {
	key, n := o.of(text)
	k := o.keys[key]
	o.keys[key] = keyState{n, !again || n == k.last && k.finished}
}

// playKeyOrder consumes messages of some keys in order while leaders are killed, and then all
// nodes, and while some messages are requeued. No message may be delivered before its predecessor
// was finished, or after the next message of its key.
func playKeyOrder(st *stage) {
	c := steps.Need(newChore(st, "ledger", map[string]any{}))
	steps.Must(c.command("channel", "create", "ledger/c", "--order", "key"))
	const keys = 6
	var all []string
	for i := range 3 * choreMessages {
		all = append(all, fmt.Sprintf("%c-%03d", 'a'+i%keys, 1+i/keys))
	}
	c.order = &keyOrder{random: rand.New(rand.NewPCG(st.o.seed, 7)), keys: map[string]keyState{}}
	consumer := c.consume("c")
	defer consumer.Dismiss()
	key := func(i int) map[string]any { return map[string]any{"key": all[i][:1]} }
	err := c.meanwhile(all, key, func() error {
		return errors.Join(c.killLeader(), c.killLeader(), st.kill(st.c.Nodes...), st.start(st.c.Nodes...))
	})
	steps.Must(errors.Join(err, c.delivered("c", all), c.deferred("c", 0)))
	consumer.Dismiss()
	for _, found := range c.order.found {
		err = errors.Join(err, errors.New(found))
	}
	st.say = append(st.say, fmt.Sprintf("%d messages of %d keys in order", len(all), keys))
	steps.Must(errors.Join(err, c.stored(all), st.whole(c.topic), st.identical(c.topic)))
}

// letters waits until these texts are dead letters, each once, and checks that no other is.
func (c *chore) letters(want []string) error {
	return c.sure("dead letters", func(ctx context.Context) error {
		return c.listed(ctx, fmt.Sprintf("/channels/bill/dead-letters?n=%d", 2*choreMessages), want)
	})
}

// playFilterMove moves a partition to other nodes while a channel has a filter.
func playFilterMove(st *stage) {
	c := steps.Need(newChore(st, "mixed", map[string]any{}))
	steps.Must(c.command("channel", "create", "mixed/orders", "--filter", `header.type == "order"`))
	consumer := c.consume("orders")
	defer consumer.Dismiss()
	all := texts("mixed", 2*choreMessages)
	orders := every(all, 2, 0)
	types := func(i int) map[string]any {
		return map[string]any{"headers": map[string]string{"type": [...]string{"order", "offer"}[i%2]}}
	}
	steps.Must(c.meanwhile(all, types, func() error {
		for _, leave := range []int{0, 1} {
			var onto []string
			for i, n := range st.c.Nodes {
				if i != leave {
					onto = append(onto, n.ID)
				}
			}
			if err := c.command("partition", "move", "mixed/0", "--replicas", strings.Join(onto, ","), "--yes", "--wait"); err != nil {
				return err
			}
		}
		return c.killLeader()
	}))
	st.say = append(st.say, fmt.Sprintf("%d of %d messages chosen", len(orders), len(all)))
	steps.Must(errors.Join(c.delivered("orders", orders), c.stored(all)))
}

// playDeferredKill kills the leader twice while an operator cancels and advances deferred messages.
// What was confirmed must hold, and messages that the operator did not touch must stay deferred, in
// all channels.
func playDeferredKill(st *stage) {
	c := steps.Need(newChore(st, "jobs", map[string]any{}))
	steps.Must(errors.Join(c.command("channel", "create", "jobs/c"), c.command("channel", "create", "jobs/unread")))
	consumer := c.consume("c")
	defer consumer.Dismiss()
	all := texts("job", choreMessages)
	hour := func(int) map[string]any { return map[string]any{"delay": "1h"} }
	steps.Must(c.meanwhile(all, hour, c.killLeader))
	changed := make(chan error, 1)
	go func() { changed <- c.reschedule(all) }()
	steps.Must(errors.Join(c.killLeader(), <-changed))
	advanced := every(all, 3, 1)
	st.say = append(st.say, fmt.Sprintf("%d cancelled, %d advanced", len(all)/3, len(advanced)))
	steps.Must(errors.Join(c.delivered("c", advanced), c.deferred("c", len(all)/3), c.deferred("unread", len(all)), c.only("c", advanced)))
}

// reschedule cancels a third of the messages, and advances another, each until confirmed.
func (c *chore) reschedule(all []string) error {
	for i, text := range all {
		verb := [...]string{"cancel", "advance", ""}[i%3]
		if verb == "" {
			continue
		}
		if err := c.ask(http.MethodPost, c.path("/channels/c/deferred/"+verb), map[string]any{"ids": []string{c.ids[text]}}, nil); err != nil {
			return err
		}
		traffic.Pause(c.st.ctx, chorePace)
	}
	return nil
}

// deferred waits until a channel has n deferred messages, and none that waits for delivery.
func (c *chore) deferred(name string, want int) error {
	return c.sure("deferred messages of "+name, func(context.Context) error {
		ch, err := c.channel(name)
		if err == nil && (ch.Deferred != want || ch.Depth+ch.InFlight > 0) {
			err = fmt.Errorf("%s has %d deferred, %d in flight and %d waiting, want %d deferred", name, ch.Deferred, ch.InFlight, ch.Depth, want)
		}
		return err
	})
}

// playTrashRestore deletes a topic, kills nodes, and restores the topic: the messages that were not
// consumed must be delivered.
func playTrashRestore(st *stage) {
	c := steps.Need(newChore(st, "lost", map[string]any{}))
	steps.Must(c.command("channel", "create", "lost/c"))
	early, late := texts("early", choreMessages/2), texts("late", choreMessages/2)
	consumer := c.consume("c")
	err := errors.Join(c.meanwhile(early, plain, func() error { return nil }), c.delivered("c", early), c.settled())
	consumer.Dismiss()
	steps.Must(err)
	steps.Must(c.meanwhile(late, plain, func() error { return nil }))
	leader := steps.Need(c.leader())
	st.note("delete the topic")
	steps.Must(errors.Join(st.c.DeleteTopic(st.ctx, c.topic), st.kill(leader), st.start(leader), st.kill(st.c.Nodes...), st.start(st.c.Nodes...)))
	steps.Must(errors.Join(c.command("topic", "restore", c.topic), st.whole(c.topic), c.killLeader()))
	c.keep("c", false)
	consumer = c.consume("c")
	defer consumer.Dismiss()
	st.say = append(st.say, fmt.Sprintf("%d messages restored, %d of them to be consumed", len(early)+len(late), len(late)))
	steps.Must(errors.Join(c.delivered("c", late), st.whole(c.topic), st.identical(c.topic), c.stored(slices.Concat(early, late))))
}

// settleWait is longer than a leader needs to send the others what was finished.
const settleWait = 500 * time.Millisecond

// settled waits until all messages of the channel are finished and all replicas have stored that.
func (c *chore) settled() error {
	err := c.deferred("c", 0)
	traffic.Pause(c.st.ctx, settleWait)
	return err
}
