package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// idleTopics is how many topics are created during a run. The first ones are created before the
	// cluster has formed. None of them gets a message before the end of the run.
	idleTopics = 5
	// idlePause is the time between two attempts to create one.
	idlePause = 300 * time.Millisecond
	// toCreate is how long a creation may take while nothing fails.
	toCreate = 5 * time.Second
	// mostEpochs is more than the elections that the faults of one run can cause.
	mostEpochs = 300
)

// idle is a topic without messages.
type idle struct {
	name   string
	config meta.TopicConfig
}

// createDraining creates a topic while a node drains, as it happens when an operator restarts one
// node after the other.
func (w *world) createDraining() idle {
	l := w.machines[0].running()
	last := meta.NodeID(w.machines[w.rnd.IntN(len(w.machines))].host)
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	late := idle{"late", meta.TopicConfig{Partitions: 2}}
	w.trace.Add("%s drains", last)
	err := l.broker.Load().Operator.DrainNode(ctx, last, api.DrainNode{Force: true})
	if err == nil {
		_, err = l.broker.Load().Directory.CreateTopic(ctx, late.name, late.config)
	}
	if err == nil {
		err = l.broker.Load().Operator.UndrainNode(ctx, last)
	}
	if err != nil {
		w.wrong("create a topic while %s drains: %v", last, err)
	}
	return late
}

// createIdle creates idle topics at any node until there are enough, or until stop is closed. It
// tries again what failed.
func (w *world) createIdle(rnd *rand.Rand, stop <-chan struct{}) (made []idle) {
	for len(made) < idleTopics {
		next := idle{fmt.Sprint("idle-", len(made)), meta.TopicConfig{Partitions: 1 + rnd.IntN(3), Replicas: rnd.IntN(4)}}
		for !w.createOnce(rnd, next) {
			select {
			case <-stop:
				return made
			case <-time.After(idlePause):
			}
		}
		made = append(made, next)
	}
	return made
}

func (w *world) createOnce(rnd *rand.Rand, t idle) bool {
	l := w.machines[rnd.IntN(len(w.machines))].running()
	if l == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := l.broker.Load().Directory.CreateTopic(ctx, t.name, t.config)
	return err == nil && !l.isDead() || errors.Is(err, failure.TopicExists)
}

// restartAll ends all nodes, cleanly or not, so that no two of them run at the same time any more,
// and starts them again. It damages what one machine stores while no node runs.
func (w *world) restartAll() {
	kill := w.rnd.IntN(2) == 0
	w.trace.Add("all restart, killed %v", kill)
	var lives []*life
	for _, m := range w.machines {
		if l := m.alive(); l != nil {
			lives = append(lives, l)
			if kill {
				l.kill(vfs.Crash{KeepPercent: 100}, "is killed")
			} else {
				l.stop()
			}
		}
	}
	for _, l := range lives {
		<-l.gone
	}
	if state := newest(lives); w.plan.damage {
		w.rotAll(state.Topic(theTopic))
	} else {
		w.offline.do(state, !kill)
	}
	w.rotted = time.Now()
	for _, m := range w.machines {
		m.start()
	}
}

// unserved names an idle topic that does not take a message. It notes those that did in served.
func (w *world) unserved(topics []idle, served map[string]bool) string {
	for _, m := range w.machines {
		if m.running() == nil {
			return m.host + " does not serve"
		}
	}
	l := w.machines[w.rnd.IntN(len(w.machines))].running()
	for _, at := range topics {
		t := l.cluster.Load().Store().Topic(at.name)
		if t == nil {
			return at.name + " is gone"
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			state := fmt.Sprintf("%s/%d led by %q at epoch %d, of %v in sync are %v", at.name, i, p.Leader, p.Epoch, p.Replicas, p.ISR)
			if p.Epoch > mostEpochs {
				w.wrong("elections without end: %s", state)
			}
			if p.Leader == "" || len(p.ISR) < len(p.Replicas) || p.Moving() {
				return state
			}
			if at.config.Replicas == 0 && (len(p.Replicas) != meta.DefaultReplicas || t.Config.MinISR != 2) {
				return fmt.Sprintf("%s, min ISR %d", state, t.Config.MinISR)
			}
			if name := fmt.Sprint(at.name, "/", i); !served[name] {
				if err := l.putIdle(at.name, i); err != nil {
					return fmt.Sprintf("%s: %v", state, err)
				}
				served[name] = true
			}
		}
	}
	return ""
}

// putIdle publishes one message. A message that may have been taken counts as taken.
func (l *life) putIdle(name string, partition int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got := make(chan error, 1)
	l.broker.Load().Router.Publish(ctx, publish.Request{
		Topic: name, Partition: partition, Messages: []topic.Message{{Body: []byte("first")}},
		Done: func(r topic.Receipt) {
			if r.Err == nil && r.First != seq.Offset(0) {
				got <- fmt.Errorf("the first message is at %d", r.First)
				return
			}
			got <- r.Err
		},
	})
	if err := <-got; fate.Of(err) == fate.Refused || fate.Of(err) == fate.Corrupt {
		return err
	}
	return nil
}
