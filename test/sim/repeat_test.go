package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// repeatFor is how long a publisher with dedup ids tries until a message is acknowledged.
const repeatFor = 2 * time.Minute

// repeat runs a publisher of one partition. It gives each message a dedup id and sends it to any
// node until it is acknowledged, before it sends the next. Each message is in the log once and in
// order, whatever fails.
func (w *world) repeat(number, partition int, rnd *rand.Rand, stop <-chan struct{}) {
	h := w.histories[partition]
	for {
		every := 4 * publishEvery
		if w.calm.Load() {
			every = calmEvery
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(every)))):
		}
		name := h.Call(number)
		m := topic.Message{Dedup: []byte(name), Key: []byte(keyOf(name))}
		m.Body = append(append(m.Body, m.Dedup...), make([]byte, 1+rnd.IntN(smallBody))...)
		m.Body[len(m.Dedup)] = ' '
		fate, at := simtest.Unknown, uint64(0)
		for end := time.Now().Add(repeatFor); fate != simtest.Acked && time.Now().Before(end); {
			l := w.machines[rnd.IntN(len(w.machines))].running()
			if l == nil {
				time.Sleep(publishEvery)
				continue
			}
			if rnd.IntN(8) == 0 { // sent twice at a time, without waiting for this one
				l.send(partition, m)
			}
			select {
			case r := <-l.send(partition, m):
				if r.Err == nil {
					fate, at = simtest.Acked, uint64(r.First)
				}
			case <-time.After(time.Duration(rnd.Int64N(int64(3 * time.Second)))): // it stops waiting
			}
			time.Sleep(time.Duration(rnd.Int64N(int64(publishEvery))))
		}
		h.Resolve(string(m.Dedup), fate, at, 0)
	}
}

// again sends messages again that were acknowledged long ago, before all nodes restarted: the
// answer to each is the offset at which it is stored.
func (w *world) again(rnd *rand.Rand) {
	if !w.plan.repeats {
		return
	}
	for p, h := range w.histories {
		all := map[string]uint64{}
		h.Acknowledged(func(name string, at, _ uint64) {
			if w.isRepeated(name) {
				all[name] = at
			}
		})
		w.await(toRecover, "what was stored before is answered as it was", func() string {
			for name, at := range all {
				l := w.machines[rnd.IntN(len(w.machines))].running()
				if l == nil {
					return "a node does not serve"
				}
				select {
				case r := <-l.send(p, topic.Message{Body: []byte(name + " "), Dedup: []byte(name)}):
					if r.Err != nil {
						return r.Err.Error()
					}
					if uint64(r.First) != at {
						w.wrong("%s of partition %d, stored at %d, was stored again at %d", name, p, at, r.First)
					}
				case <-time.After(6 * time.Second):
					return "no answer"
				}
				delete(all, name)
			}
			return ""
		})
	}
}

// isRepeated reports whether a message has a dedup id: the publishers with the highest numbers use
// them.
func (w *world) isRepeated(name string) bool {
	var publisher int
	_, err := fmt.Sscanf(name, "p%d-", &publisher)
	return err == nil && publisher >= w.plan.publishers*w.plan.partitions
}

// send publishes a message. The channel gets no receipt if the node has died.
func (l *life) send(partition int, m topic.Message) <-chan topic.Receipt {
	answer := make(chan topic.Receipt, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		l.broker.Load().Router.Publish(ctx, publish.Request{
			Topic: theTopic, Partition: partition, Messages: []topic.Message{m},
			Done: func(r topic.Receipt) {
				l.mu.RLock()
				defer l.mu.RUnlock()
				if !l.dead {
					answer <- r
				}
			},
		})
	}()
	return answer
}
