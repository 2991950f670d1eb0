package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// The topic that an operator deletes and restores, how clients use it, and its channels.
const (
	trashTopic  = "trashed"
	trashEvery  = 100 * time.Millisecond // at most, between two publishes
	trashPause  = 400 * time.Millisecond // at most, between two actions of the operator
	keptChannel = "kept"                 // is deleted and restored with the topic only
	goneChannel = "gone"                 // is deleted and restored by itself as well
	// mostDeletions is how often a channel is deleted: it can be restored a bounded number of times.
	mostDeletions = 4
	// trashSettles is how long a deletion whose outcome is unknown may take effect after nodes no longer fail.
	trashSettles = 10 * time.Second
)

// trashed is a topic that is deleted and restored while nodes fail, as is one of its channels. Whatever was
// acknowledged is delivered to both channels.
type trashed struct {
	w *world

	mu       sync.Mutex // guards what follows
	sent     int
	acked    []int
	got      map[string]map[string]bool // messages, by channel
	forgiven int                        // the channel that is deleted by itself need not get those below

	deletions int              // by the operator, who alone uses it and what follows
	version   meta.Incarnation // of the channel that gets everything; 0: unknown
	repeat    bool             // the last restore of the channel was not complete
	restored  chan struct{}    // closed when the operator has restored everything for good
}

// newTrashed creates the topic, or returns nil if the plan has none.
func (w *world) newTrashed() *trashed {
	if !w.plan.trash {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d := w.machines[0].running().broker.Load().Directory
	_, err := d.CreateTopic(ctx, trashTopic, meta.TopicConfig{
		Replicas: 3, MinISR: 2, Sync: meta.SyncAlways(), RetentionAge: 10_000 * time.Hour, RetentionTrash: 700 * time.Hour,
	})
	x := &trashed{w: w, got: map[string]map[string]bool{}, restored: make(chan struct{})}
	for _, name := range []string{keptChannel, goneChannel} {
		x.got[name] = map[string]bool{}
		if err == nil {
			err = d.EnsureChannel(ctx, meta.CreateChannel{Topic: trashTopic, Channel: name})
		}
	}
	if err != nil {
		w.wrong("create the topic %s: %v", trashTopic, err)
	}
	return x
}

// start starts the clients and the operator, who stops when nodes no longer fail.
func (x *trashed) start(seed uint64, publishers, consumers *sync.WaitGroup, healed, stop, done <-chan struct{}) {
	if x == nil {
		return
	}
	publishers.Go(func() { x.publish(rand.New(rand.NewPCG(seed, 700)), stop) })
	publishers.Go(func() { x.operate(rand.New(rand.NewPCG(seed, 701)), healed) })
	for i, name := range []string{keptChannel, goneChannel} {
		consumers.Go(func() { x.consume(name, rand.New(rand.NewPCG(seed, uint64(710+i))), done) })
	}
}

// await waits until the operator has restored everything.
func (x *trashed) await() {
	if x != nil {
		<-x.restored
	}
}

// finale waits until the channels have what they must get.
func (x *trashed) finale() {
	if x != nil {
		x.w.await(toDrain, "what was acknowledged comes from a restored topic and channel", x.missing)
	}
}

// publish publishes messages at any node. While the topic is deleted, they are refused.
func (x *trashed) publish(rnd *rand.Rand, stop <-chan struct{}) {
	for {
		every := trashEvery
		if x.w.calm.Load() {
			every = calmEvery
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(every)))):
		}
		if l := x.w.machines[rnd.IntN(len(x.w.machines))].running(); l != nil {
			x.send(l)
		}
	}
}

func (x *trashed) send(l *life) {
	x.mu.Lock()
	n := x.sent
	x.sent++
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.broker.Load().Router.Publish(ctx, publish.Request{
		Topic: trashTopic, Partition: 0, Messages: []topic.Message{{Body: fmt.Append(nil, n)}},
		Done: func(r topic.Receipt) {
			l.mu.RLock()
			defer l.mu.RUnlock()
			if !l.dead && r.Err == nil {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.acked = append(x.acked, n)
			}
		},
	})
}

// consume reads a channel at any node. Now and then it requeues a message.
func (x *trashed) consume(channel string, rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))):
		}
		l := x.w.machines[rnd.IntN(len(x.w.machines))].running()
		if l == nil {
			continue
		}
		e := errand{w: x.w, topic: trashTopic, channel: channel, stop: stop}
		e.run(l, func(d *topic.Delivery) { x.delivered(l, channel, string(d.Body)) }, func(s answers, id seq.MessageID, _ string) {
			if rnd.IntN(5) == 0 {
				_ = s.Requeue(id, time.Duration(rnd.IntN(2))*20*time.Millisecond)
				return
			}
			_ = s.Finish(id)
		})
	}
}

// delivered notes a delivery if the process is still alive.
func (x *trashed) delivered(l *life, channel, name string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.dead {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.got[channel][name] = true
	}
}

// operate deletes and restores the topic and the channel at any node, and restores both when stop is closed.
func (x *trashed) operate(rnd *rand.Rand, stop <-chan struct{}) {
	defer close(x.restored)
	for {
		select {
		case <-stop:
			time.Sleep(trashSettles)
			x.w.await(toRecover, trashTopic+" is restored", func() string { return x.change(rnd, false) })
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(trashPause)))):
			x.change(rnd, true)
		}
	}
}

// change restores what is deleted, or else deletes something, unless it may not. It returns what is missing
// afterwards, as far as it knows.
func (x *trashed) change(rnd *rand.Rand, deletes bool) string {
	l := x.w.machines[rnd.IntN(len(x.w.machines))].running()
	if l == nil {
		return "a node does not serve"
	}
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	var lives []*life
	for _, m := range x.w.machines {
		if l := m.running(); l != nil {
			lives = append(lives, l)
		}
	}
	state := newest(lives) // a node may not know of the last deletion yet
	if state == nil {
		return "no node serves"
	}
	b, t := l.broker.Load(), state.Topic(trashTopic)
	switch {
	case t == nil:
		_, err := b.Directory.Trash().Restore(ctx, meta.RestoreTopic{Name: trashTopic})
		x.w.trace.Add("restore %s at %s: %v", trashTopic, l.m.host, err)
		return "the topic"
	case x.repeat || x.isOwed(t.Channels[goneChannel]):
		return x.restoreChannel(ctx, l)
	}
	x.version = t.Channels[goneChannel].Version
	switch {
	case !deletes:
	case rnd.IntN(2) == 0:
		x.w.trace.Add("delete %s at %s: %v", trashTopic, l.m.host, l.deleteTopic(trashTopic))
	case x.deletions < mostDeletions:
		x.deletions++
		err := b.Contents.DeleteChannel(ctx, trashTopic, goneChannel)
		x.w.trace.Add("delete %s of %s at %s: %v", goneChannel, trashTopic, l.m.host, err)
	}
	return ""
}

// isOwed reports whether the channel does not exist, or is another one, which a consumer has created and which does
// not get what was published for the one before.
func (x *trashed) isOwed(ch *meta.Channel) bool {
	return ch == nil || x.version != 0 && ch.Version != x.version && !slices.Contains(ch.Former, x.version)
}

// restoreChannel restores the deleted channel. If no position was saved because no leader answered, a new channel
// takes its place, which need not get what was published before.
func (x *trashed) restoreChannel(ctx context.Context, l *life) string {
	b := l.broker.Load()
	_, err := b.Contents.RestoreChannel(ctx, trashTopic, goneChannel, true)
	x.w.trace.Add("restore %s of %s at %s: %v", goneChannel, trashTopic, l.m.host, err)
	x.repeat = err != nil
	if errors.Is(err, failure.NothingToUndo) || errors.Is(err, failure.ChannelThere) { // a consumer was first
		x.repeat = false
		err = b.Directory.EnsureChannel(ctx, meta.CreateChannel{Topic: trashTopic, Channel: goneChannel})
		x.w.trace.Add("create %s of %s again: %v", goneChannel, trashTopic, err)
		x.mu.Lock()
		x.forgiven, x.version = x.sent, 0
		x.mu.Unlock()
	}
	return "the channel"
}

// missing names an acknowledged message that a channel did not get.
func (x *trashed) missing() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for channel, got := range x.got {
		for _, n := range x.acked {
			if !got[fmt.Sprint(n)] && (channel != goneChannel || n >= x.forgiven) {
				return fmt.Sprintf("message %d of %d was acknowledged, and not delivered to %s, which need not get those below %d", n, x.sent, channel, x.forgiven)
			}
		}
	}
	return ""
}
