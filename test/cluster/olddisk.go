package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// How many messages are published before the disk is copied, after it, and while its node is the only one in sync.
const (
	oldFirst = 40
	oldSince = 100
	oldAlone = 25
)

// An oldDisk is a way in which a node comes to a disk that is not the one that it used last.
type oldDisk struct {
	name     string
	replaced bool // the node was replaced under its name; otherwise its disk is restored from a snapshot
	minISR   int
}

// playOldDisk gives a node its old disk. What the cluster has acknowledged since must not be lost without a word.
func playOldDisk(st *stage) {
	steps.Must(voters(st, len(st.c.Nodes))) // or a majority is lost with the disk of one
	for _, d := range []oldDisk{{"replaced1", true, 1}, {"replaced2", true, 2}, {"restored1", false, 1}, {"restored2", false, 2}} {
		steps.During(d.name, func() { d.play(st) })
	}
}

func (d oldDisk) play(st *stage) {
	name := "old" + d.name
	steps.Must(st.make(name, map[string]any{"partitions": 1, "replicas": 2, "min_isr": d.minISR}, "c"))
	leader, other, err := pair(st, name)
	steps.Must(err)
	old, last := leader.Data()+"-old", leader.Data()+"-last"
	steps.Must(publishAll(leader, name, "first", oldFirst))
	steps.Must(errors.Join(st.kill(leader), os.CopyFS(old, os.DirFS(leader.Data()))))
	if d.replaced {
		steps.Must(leader.Wipe())
	}
	steps.Must(errors.Join(st.start(leader), st.whole(name), voters(st, len(st.c.Nodes)), publishAll(other, name, "since", oldSince)))
	want := map[string]int{"first": oldFirst, "since": oldSince}

	st.note("the old disk of %s returns while %s is in sync", leader.ID, other.ID)
	steps.Must(errors.Join(st.kill(leader), os.Rename(leader.Data(), last), os.CopyFS(leader.Data(), os.DirFS(old))))
	steps.Must(errors.Join(st.start(leader), st.whole(name), st.identical(name), voters(st, len(st.c.Nodes)), os.RemoveAll(last)))

	st.note("the old disk of %s returns when no other is in sync", leader.ID)
	steps.Must(errors.Join(st.kill(other), onlyInSync(st, name, leader)))
	if d.minISR == 1 {
		steps.Must(publishAll(leader, name, "alone", oldAlone))
		want["alone"] = oldAlone
	}
	steps.Must(errors.Join(st.kill(leader), os.Rename(leader.Data(), last), os.Rename(old, leader.Data())))
	steps.Must(errors.Join(st.start(leader, other), d.offline(st, name)))
	steps.Must(errors.Join(
		brokerctlSays(st, 0, "node_disk_outdated", "events"),
		brokerctlSays(st, exitUnhealthy, "replicas_outdated", "cluster", "health")))

	st.note("the last disk of %s returns", leader.ID)
	steps.Must(errors.Join(st.kill(leader), os.RemoveAll(leader.Data()), os.Rename(last, leader.Data()), st.start(leader), d.offline(st, name)))
	steps.Must(brokerctlSays(st, 0, leader.ID, "partition", "elect", name+"/0", "--unclean", "--to", leader.ID, "--yes"))
	steps.Must(errors.Join(st.whole(name), exactly(st, name, want), st.identical(name), voters(st, len(st.c.Nodes))))
}

// offline waits until the partition has no leader and no in-sync replica.
func (d oldDisk) offline(st *stage, name string) error {
	return awaitTopic(st, moveTimeout, name, func(t nodes.Topic) error {
		if p := t.Partitions[0]; p.Leader != "" || len(p.ISR) > 0 {
			return fmt.Errorf("led by %q, %v are in sync", p.Leader, p.ISR)
		}
		return nil
	})
}

// voters waits until all nodes have a vote.
func voters(st *stage, want int) error {
	return await(st, healTimeout, func(ctx context.Context) error {
		info, err := st.c.Info(ctx)
		if err != nil {
			return err
		}
		got := 0
		for _, n := range info.Nodes {
			if n.Voter {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%d nodes have a vote, not %d", got, want)
		}
		return nil
	})
}
