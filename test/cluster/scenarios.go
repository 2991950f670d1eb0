package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/network"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// scenario is a sequence of faults or operations that is played on a cluster.
type scenario struct {
	name, about string
	network     bool          // the nodes are in namespaces of their own
	graceful    bool          // no publish may fail
	busy        bool          // needs the whole machine: no other scenario is played meanwhile
	long        bool          // played only in a soak or if it is named
	previous    bool          // needs -previous
	clocks      bool          // needs -clocks
	crashes     bool          // of the only node, each of which the audit knows: any other redelivery is an error
	nodes       int           // number of nodes; 0: -nodes
	limit       time.Duration // 0: scenarioTimeout
	setup       func(*stage, *nodes.Options) error
	run         func(*stage) // runs while the load runs
	alone       func(*stage) // instead of run; it brings the load that it needs
}

var scenarios = []scenario{
	{name: "crash", about: "kill -9 a node alone, -rounds times, in some of them while it recovers", nodes: 1, crashes: true, busy: true, limit: time.Hour, run: crash},
	{name: "kill-follower", about: "kill -9 a node that does not lead partition 0, nor the metadata", run: killRole(follower)},
	{name: "kill-leader", about: "kill -9 the leader of partition 0", run: killRole(partitionLeader)},
	{name: "kill-controller", about: "kill -9 the leader of the metadata", run: killRole((*stage).controller)},
	{name: "kill-all", about: "kill -9 all nodes at once", run: killAll},
	{name: "pause-follower", about: "SIGSTOP a follower", run: pauseRole(follower)},
	{name: "pause-leader", about: "SIGSTOP the leader of partition 0", run: pauseRole(partitionLeader)},
	{name: "pause-controller", about: "SIGSTOP the leader of the metadata", run: pauseRole((*stage).controller)},
	{name: "pause-long", about: "SIGSTOP a leader and a follower, for 10 s and for 30 s", long: true, run: pauseLong},
	{name: "starved", about: "all nodes run late, as on a machine that has no time for them", busy: true, run: playStarved},
	{name: "cut-leader", about: "cut the leader of partition 0 off from all nodes", network: true, run: cutOff(true, true)},
	{name: "cut-one-way", about: "the leader of partition 0 receives from all nodes, and no node receives from it", network: true, run: cutOff(true, false)},
	{name: "cut-deaf", about: "all nodes receive from the leader of partition 0, and it receives from none", network: true, run: cutOff(false, true)},
	{name: "cut-controller", about: "cut the leader of partition 0 off from that of the metadata only", network: true, run: cutQuorum},
	{name: "distant", about: "80 ms between nodes, 5% of the packets are lost, others are repeated or overtaken", network: true, run: endure(distant, nil)},
	{name: "narrow", about: "1 Mbit/s to and from a follower", network: true, run: endure(narrow, follower)},
	{name: "rolling-restart", about: "SIGTERM and start each node in turn; no publish may fail", graceful: true, run: rollingRestart},
	{name: "mixed-versions", about: "from the release before to this one, back, and up for good; no publish may fail", graceful: true, previous: true, limit: 5 * time.Minute, setup: installPrevious, run: mixedVersions},
	{name: "mixed-kills", about: "nodes of two releases, of which leaders are killed while a follower lags", previous: true, setup: installPrevious, run: mixedKills},
	{name: "replace-empty", about: "a node comes back under its name with an empty disk", run: replaceEmpty},
	{name: "replace-new", about: "a new node joins and an old one is decommissioned and removed", run: replaceNew},
	{name: "replace-address", about: "a node is lost for good, and a new one with another name gets its addresses", run: replaceAddress},
	{name: "swap-addresses", about: "two nodes restart with the addresses of each other, four times, and one of them once more", alone: playSwapAddresses},
	{name: "five-nodes", about: "of five nodes two are down at once, and one is replaced for good", nodes: 5, run: fiveNodes},
	{name: "membership", about: "drain, grow, move, decommission and remove by brokerctl; no publish may fail", graceful: true, run: membership},
	{name: "tls", about: "nodes with certificates: foreign ones are refused, theirs are renewed, a leader is killed", setup: certify, run: playTLS},
	{name: "unclean", about: "an operator elects a replica that is not in sync, since the others are gone", long: true, alone: playUnclean},
	{name: "old-disk", about: "the old disk of a replaced node returns, and one is restored from a snapshot: neither counts as in sync", alone: playOldDisk},
	{name: "ordered", about: "an ordered topic through fail-overs, pauses and restarts", alone: playOrdered},
	{name: "recreate-topic", about: "a topic is deleted and made again under load", alone: playRecreate},
	{name: "quorum-lost", about: "two of three nodes are killed", alone: playQuorumLost},
	{name: "harm", about: "kill -9 all nodes at once and harm one copy or all: bits, ends, files, an older state", alone: playHarm},
	{name: "harm-files", about: "one of three nodes is killed and a file of its disk harmed: a few of all files, in nine ways", setup: smallSegments, alone: playEveryFile},
	{name: "harm-all-files", about: "the same with every kind of file in every way", long: true, limit: 20 * time.Minute, setup: smallSegments, alone: playAllFiles},
	{name: "quorum-recovered", about: "two of three nodes are lost for good, the third is recovered and the others join empty", run: playRecovered},
	{name: "empty-restart", about: "all nodes restart, in order and by kill -9, while topics have no messages", alone: playEmptyRestart},
	{name: "grow-from-one", about: "one node becomes three; a topic gets its copies, and the first node is killed", nodes: 1, setup: startAlone, alone: playGrowFromOne},
	{name: "drain-create", about: "a topic is made while a node drains, which then restarts", alone: playDrainCreate},
	{name: "two-nodes", about: "one of two nodes restarts in order; publishing goes on", nodes: 2, alone: playTwoNodes},
	{name: "limits-differ", about: "a node takes bodies that the others would not", setup: limitsDiffer, alone: playLimits},
	{name: "dedup", about: "publish with dedup ids, all of it twice, while the leader is killed, and then all nodes", alone: playDedup},
	{name: "dead-letters", about: "leaders are killed while messages become dead letters, which are brought back", alone: playDeadLetters},
	{name: "expired-letters", about: "leaders are killed while messages expire and become dead letters, which are brought back", alone: playExpired},
	{name: "key-order", about: "a channel with order by key while leaders are killed, and then all nodes", alone: playKeyOrder},
	{name: "filter-move", about: "a partition moves while a channel gets a part of its messages", nodes: 4, alone: playFilterMove},
	{name: "deferred-kill", about: "the leader is killed twice while deferred messages are cancelled and advanced", alone: playDeferredKill},
	{name: "other-clocks", about: "nodes restart with clocks that are off by hours: nothing expires, and they do not lead", clocks: true, setup: installClocks, alone: playClocks},
	{name: "trash-restore", about: "a topic is deleted, nodes are killed, and it is restored", alone: playTrashRestore},
	{name: "five-topics", about: "five topics made at once are writable within a second", alone: playFiveTopics},
}

func partitionLeader(st *stage) (*nodes.Node, error) { return st.leader(topic, 0) }

// follower returns a node that leads neither partition 0 nor the metadata.
func follower(st *stage) (*nodes.Node, error) {
	leader, err := partitionLeader(st)
	if err != nil {
		return nil, err
	}
	controller, err := st.controller()
	return st.other(leader, controller), err
}

// killRole kills a node, leaves it down for a while and starts it again, twice.
func killRole(role func(*stage) (*nodes.Node, error)) func(*stage) {
	return func(st *stage) {
		for range 2 {
			n := steps.Need(role(st))
			steps.Must(st.kill(n))
			st.wait(st.random())
			steps.Must(st.start(n))
			steps.Must(st.recovered())
		}
	}
}

func killAll(st *stage) {
	for range 2 {
		steps.Must(st.kill(st.c.Nodes...))
		steps.Must(st.start(st.c.Nodes...))
		steps.Must(st.recovered())
	}
}

// pauseRole stops a node for a while, as happens to a machine that swaps.
func pauseRole(role func(*stage) (*nodes.Node, error)) func(*stage) {
	return func(st *stage) {
		for range 2 {
			pauseNode(st, steps.Need(role(st)), st.random())
		}
	}
}

// pauseLong pauses nodes for longer than any client or node waits for them.
func pauseLong(st *stage) {
	roles := []func(*stage) (*nodes.Node, error){partitionLeader, follower}
	st.rng.Shuffle(len(roles), func(i, j int) { roles[i], roles[j] = roles[j], roles[i] })
	for i, d := range []time.Duration{10 * time.Second, 30 * time.Second} {
		pauseNode(st, steps.Need(roles[i](st)), d)
	}
}

func pauseNode(st *stage, n *nodes.Node, d time.Duration) {
	st.disturb("SIGSTOP %s for %v", n.ID, d.Round(time.Millisecond))
	steps.Must(n.Pause())
	st.wait(d)
	steps.Must(n.Resume())
	st.note("SIGCONT")
	steps.Must(st.recovered())
}

// cutOff drops what the leader sends to or receives from the other nodes, for a while.
func cutOff(sent, received bool) func(*stage) {
	return func(st *stage) {
		n := steps.Need(partitionLeader(st))
		i := slices.Index(st.c.Nodes, n)
		st.disturb("%s: %s", st.s.name, n.ID)
		st.net.Around(i, sent, received, network.Weather{Cut: true})
		st.wait(2*time.Second + st.random())
		st.note("heal")
		st.net.Heal()
	}
}

// Networks that are bad for a while, and for how long.
var (
	distant = network.Weather{Delay: 80 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.05, Duplicate: 0.02}
	narrow  = network.Weather{Delay: 20 * time.Millisecond, Rate: 125_000}
)

const badTime = 15 * time.Second

// endure makes the network bad between all nodes, or around one. Publishing continues, and there are few elections.
func endure(is network.Weather, role func(*stage) (*nodes.Node, error)) func(*stage) {
	return func(st *stage) {
		before := steps.Need(counted(st, "brokerd_raft_term"))
		st.disturb("%s: %+v", st.s.name, is)
		if role == nil {
			st.net.Everywhere(is)
		} else {
			n := steps.Need(role(st))
			st.net.Around(slices.Index(st.c.Nodes, n), true, true, is)
		}
		for end := time.Now().Add(badTime); time.Now().Before(end) && st.ctx.Err() == nil; {
			st.wait(badTime / 3)
			var err error
			st.l.Tell(func(_ *audit.Audit, now time.Duration) {
				if now-st.l.gap.last > badTime/3 {
					err = fmt.Errorf("no publish was acknowledged for %v", now-st.l.gap.last)
				}
			})
			steps.Must(err)
		}
		st.note("heal")
		st.net.Heal()
		if elections := (steps.Need(counted(st, "brokerd_raft_term")) - before) / len(st.c.Nodes); elections > electionsBorne {
			steps.Fail("the metadata leader changed %d times, the maximum is %d", elections, electionsBorne)
		}
	}
}

// cutQuorum cuts the leader of a partition off from the leader of the metadata. The leader still
// reaches its other follower.
func cutQuorum(st *stage) {
	controller := steps.Need(st.controller())
	t := steps.Need(st.c.Topic(st.ctx, topic))
	for _, p := range t.Partitions {
		if p.Leader == controller.ID || p.Leader == "" {
			continue
		}
		leader := st.c.Node(p.Leader)
		st.disturb("cut %s, which leads partition %d, off from %s, which leads the metadata", leader.ID, p.Partition, controller.ID)
		a, b := slices.Index(st.c.Nodes, leader), slices.Index(st.c.Nodes, controller)
		st.net.Set(a, b, network.Weather{Cut: true})
		st.net.Set(b, a, network.Weather{Cut: true})
		st.wait(2*time.Second + st.random())
		st.note("heal")
		st.net.Heal()
		return
	}
	steps.Fail("the metadata leader leads all partitions")
}

func rollingRestart(st *stage) {
	for _, n := range st.c.Nodes {
		steps.Must(errors.Join(stop(st, n), st.start(n), st.whole(topic)))
		st.note("all replicas are in sync")
		st.wait(steadyTime)
	}
}

// replaceEmpty replaces the disk of a node by an empty one.
func replaceEmpty(st *stage) {
	n := steps.Need(partitionLeader(st))
	steps.Must(st.kill(n))
	steps.Must(n.Wipe())
	st.wait(steadyTime)
	steps.Must(st.start(n))
}

// replaceNew replaces an old node by a new one.
func replaceNew(st *stage) {
	steps.Need(grow(st))
	old := steps.Need(partitionLeader(st))
	st.disturb("%s goes", old.ID)
	retire(st, old)
}

// replaceAddress starts a new node at the address of a permanently lost one.
func replaceAddress(st *stage) {
	old := steps.Need(partitionLeader(st))
	steps.Must(st.kill(old))
	st.wait(steadyTime)
	steps.Must(st.start(st.c.Grow(old.Addresses)))
	retire(st, old)
}

// playSwapAddresses has the nodes that do not lead the metadata swap their addresses. The leader of the metadata, which
// keeps running, must send each of them what is meant for it.
func playSwapAddresses(st *stage) {
	controller := steps.Need(st.controller())
	others := slices.DeleteFunc(slices.Clone(st.c.Nodes), func(n *nodes.Node) bool { return n == controller })
	for i := range 4 {
		steps.Must(errors.Join(stop(st, others[1]), stop(st, others[0])))
		a, b := others[0].Addresses, others[1].Addresses
		others[0].Move(b)
		others[1].Move(a)
		steps.Must(st.start(others...))
		steps.Must(errors.Join(stop(st, others[0]), st.start(others[0])))
		name := fmt.Sprintf("swapped%d", i)
		steps.Must(st.make(name, map[string]any{"partitions": len(st.c.Nodes), "replicas": len(st.c.Nodes)}))
		if err := errors.Join(st.whole(name), healthyAgain(st), takenEverywhere(st, name)); err != nil {
			steps.Fail("after swap %d: %w", i+1, err)
		}
	}
}
