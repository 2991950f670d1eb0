package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// passing is the name of a topic that is created, used and deleted repeatedly.
	passing = "passing"
	// changePause is at most the time between two changes of an operator.
	changePause = 400 * time.Millisecond
)

// operate acts as an operator while nodes fail, until stop is closed: it moves partitions to other
// nodes, and it deletes a topic and creates it again under its name. It returns that topic. The
// last one that was created has no messages.
func (w *world) operate(rnd *rand.Rand, stop <-chan struct{}) []idle {
	at := idle{passing, meta.TopicConfig{Partitions: 1 + rnd.IntN(3)}}
	for {
		select {
		case <-stop:
			return w.comeAgain(rnd, at)
		case <-time.After(time.Duration(rnd.Int64N(int64(changePause)))):
		}
		l := w.machines[rnd.IntN(len(w.machines))].running()
		if l == nil {
			continue
		}
		switch rnd.IntN(5) {
		case 0:
			_ = l.deleteTopic(passing)
		case 1:
			w.createOnce(rnd, at)
		case 2:
			l.pass(rnd.IntN(at.config.Partitions))
		case 3:
			w.leadAgain(l, rnd.IntN(w.plan.partitions))
		default:
			w.move(l, rnd)
		}
	}
}

// comeAgain deletes the topic and creates it again when nothing fails any more.
func (w *world) comeAgain(rnd *rand.Rand, at idle) []idle {
	w.await(toRecover, passing+" is deleted and created", func() string {
		l := w.machines[rnd.IntN(len(w.machines))].running()
		if l == nil {
			return "a node does not serve"
		}
		if err := l.deleteTopic(passing); err != nil && !errors.Is(err, failure.TopicNotFound) {
			return err.Error()
		}
		if !w.createOnce(rnd, at) {
			return "it is not created"
		}
		return ""
	})
	return []idle{at}
}

func (l *life) deleteTopic(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	return l.broker.Load().Directory.DeleteTopic(ctx, name)
}

// pass publishes a message to the topic that is deleted and created repeatedly. The outcome is not
// checked.
func (l *life) pass(partition int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answered := make(chan struct{})
	l.broker.Load().Router.Publish(ctx, publish.Request{
		Topic: passing, Partition: partition, Messages: []topic.Message{{Body: []byte("passing")}},
		Done: func(topic.Receipt) { close(answered) },
	})
	<-answered
}

// move asks for a move of a partition to random nodes.
func (w *world) move(l *life, rnd *rand.Rand) {
	var to []meta.NodeID
	for _, i := range rnd.Perm(len(w.machines))[:3] {
		to = append(to, meta.NodeID(w.machines[i].host))
	}
	partition := rnd.IntN(w.plan.partitions)
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	err := l.broker.Load().Operator.MovePartition(ctx, theTopic, partition, to, false)
	w.trace.Add("partition %d moves to %v: %v", partition, to, fmt.Sprint(err))
}

// leadAgainOften has leaders begin new epochs while nothing fails, where consumers stall often: what they hold of an
// earlier one, unread, has no excuse to come late.
func (w *world) leadAgainOften(rnd *rand.Rand) {
	if w.plan.stalls != often {
		return
	}
	for range 12 {
		if l := w.machines[rnd.IntN(len(w.machines))].running(); l != nil {
			w.leadAgain(l, rnd.IntN(w.plan.partitions))
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(w.plan.timeout))))
	}
	w.await(toRecover, "all replicas are in sync after new epochs", w.unsynced)
}

// leadAgain has the leader of a partition of the topic begin a new epoch, as one does that repairs its log.
func (w *world) leadAgain(l *life, partition int) {
	t, err := l.broker.Load().Directory.Topic(theTopic)
	if err != nil || t.Partitions[partition].Leader == "" {
		return
	}
	p := t.Partitions[partition]
	ctx, cancel := context.WithTimeout(context.Background(), toCreate)
	defer cancel()
	_, err = l.broker.Load().Host.Propose(ctx, meta.ElectLeaders{Elections: []meta.Election{
		{Topic: theTopic, Partition: partition, Version: p.Version, Leader: p.Leader, Reason: meta.ReasonRepair},
	}})
	w.trace.Add("partition %d is led by %s again, after epoch %d: %v", partition, p.Leader, p.Epoch, err)
}
