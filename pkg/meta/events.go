package meta

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// happened records what a command, applied at a moment in ns since 1970, has changed. before are
// the topics before the command. A command without a moment, or without a change, is no event.
func (p *past) happened(s *State, at int64, c Command, r *Result, before *topicSet) {
	if at == 0 || r.Existed {
		return
	}
	e, flux := describe(s, c, r, before)
	if e.Kind == "" {
		return
	}
	e.Index, e.At = s.index, at
	if flux {
		p.flux = keep(p.flux, &e, maxEvents)
	} else {
		p.events = keep(p.events, &e, maxEvents)
	}
}

// describe describes the effect of a command. flux means that it is about leaders or replicas,
// which may change often.
func describe(s *State, c Command, r *Result, before *topicSet) (e Event, flux bool) {
	switch c := c.(type) {
	case InitCluster:
		return Event{Kind: "cluster_formed", Object: c.ID, What: "cluster formed"}, false
	case FinalizeUpgrade:
		return Event{Kind: "upgrade_finalized", What: fmt.Sprintf("feature level %v; releases that do not support it can no longer take part", c.Level)}, false
	case SetSettings:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(c.Values)) {
			parts = append(parts, k+"="+c.Values[k])
		}
		return Event{Kind: "settings_changed", What: "settings: " + clip(strings.Join(parts, " "))}, false
	case NodeStarted, SetNodeState, RemoveNode, SetNodeIntent, SetNodeDisk:
		return describeNode(c, r), false
	case CreateTopic, AlterTopic, AddPartitions, DeleteTopic, PauseTopic, RestoreTopic, PurgeTopics:
		return describeTopic(c, r), false
	case CreateChannel, DeleteChannel, AlterChannel:
		return describeChannel(c), false
	case ChangeAccess:
		return describeAccess(c), false
	case RecordAct:
		return describeAct(&c.Act), false
	case ElectLeaders, AlterISR, StartReassign, FinishReassign, YieldLeader:
		return describePartitions(s, c, r, before), true
	}
	return Event{}, false
}

// Membership returns the events of nodes between two states of one history. It has nothing from
// before the first.
func Membership(was, is *State) (found []*Event) {
	if was.Index() == 0 || SameNodes(was, is) {
		return nil
	}
	for _, e := range JournalOf(is).Events(was.Index()) {
		if strings.HasPrefix(e.Kind, "node_") {
			found = append(found, e)
		}
	}
	return found
}

// describeAct describes a change of the members, and a refused join: other acts are known by their
// effects.
func describeAct(a *Act) Event {
	kind := map[string]string{ActJoin: "member_added", ActPromote: "member_promoted", ActMove: "member_moved", ActExpel: "member_removed"}[a.Verb]
	switch {
	case kind == "":
		return Event{}
	case a.Status >= http.StatusBadRequest:
		return Event{Kind: "join_refused", Object: a.Object, What: "node at " + a.Actor + " was refused: " + a.Request}
	}
	return Event{Kind: kind, Object: a.Object, What: a.Request + "; asked by " + a.Identity + " at " + a.Actor}
}

func describeNode(c Command, r *Result) Event {
	switch c := c.(type) {
	case NodeStarted:
		n := r.Node
		if n == nil {
			return Event{}
		}
		if n.Incarnation == 1 {
			return Event{Kind: "node_joined", Object: string(n.ID), What: "node joined the cluster, version " + n.Version}
		}
		if r.DiskBefore.Outdated(n.Disk, c.Follows) {
			what := "node started with " + r.DiskBefore.Difference(n.Disk) + "; its replicas count as empty"
			return Event{Kind: "node_disk_outdated", Object: string(n.ID), What: what}
		}
		return Event{Kind: "node_started", Object: string(n.ID), What: fmt.Sprintf("node started, version %s, start %d", n.Version, n.Incarnation)}
	case SetNodeState:
		return Event{Kind: "node_" + string(c.State), Object: string(c.ID), What: "node is " + string(c.State)}
	case RemoveNode:
		what := "node removed from the cluster"
		if len(r.Purged) > 0 {
			what += "; deleted topics that can no longer be restored: " + someNames(r.Purged)
		}
		return Event{Kind: "node_removed", Object: string(c.ID), What: what}
	case SetNodeIntent:
		if c.Intent == IntentNone {
			return Event{Kind: "node_undrained", Object: string(c.ID), What: "drain or decommission cancelled"}
		}
		return Event{Kind: "node_" + string(c.Intent), Object: string(c.ID), What: "operator asked: " + string(c.Intent)}
	case SetNodeDisk:
		if c.Full {
			return Event{Kind: "node_disk_full", Object: string(c.ID), What: "disk nearly full"}
		}
		return Event{Kind: "node_disk_ok", Object: string(c.ID), What: "disk space available again"}
	}
	return Event{}
}

func describeTopic(c Command, r *Result) Event {
	switch c := c.(type) {
	case CreateTopic:
		return Event{Kind: "topic_created", Object: c.Name, What: fmt.Sprintf("topic created, %d partitions, %d replicas", c.Config.Partitions, c.Config.Replicas)}
	case AlterTopic:
		return Event{Kind: "topic_altered", Object: c.Name, What: "topic configuration changed"}
	case AddPartitions:
		return Event{Kind: "topic_altered", Object: c.Name, What: fmt.Sprintf("%d partitions added", len(c.Assignment))}
	case DeleteTopic:
		what := "topic deleted"
		if len(r.Purged) > 0 {
			what += "; the trash is full, purged: " + someNames(r.Purged)
		}
		return Event{Kind: "topic_deleted", Object: c.Name, What: what}
	case RestoreTopic:
		return Event{Kind: "topic_restored", Object: c.Name, What: "topic restored from the trash"}
	case PurgeTopics:
		return Event{Kind: "topic_purged", Object: someNames(r.Purged), What: "purged"}
	case PauseTopic:
		if c.Paused {
			return Event{Kind: "topic_paused", Object: c.Name, What: "topic paused"}
		}
		return Event{Kind: "topic_resumed", Object: c.Name, What: "topic resumed"}
	}
	return Event{}
}

func describeChannel(c Command) Event {
	switch c := c.(type) {
	case CreateChannel:
		return Event{Kind: "channel_created", Object: c.Topic + "/" + c.Channel, What: "channel created"}
	case DeleteChannel:
		return Event{Kind: "channel_deleted", Object: c.Topic + "/" + c.Channel, What: "channel deleted"}
	case AlterChannel:
		e := Event{Kind: "channel_altered", Object: c.Topic + "/" + c.Channel, What: "channel configuration changed"}
		if c.Paused != nil && *c.Paused {
			e.Kind, e.What = "channel_paused", "channel paused"
		} else if c.Paused != nil {
			e.Kind, e.What = "channel_resumed", "channel resumed"
		}
		return e
	}
	return Event{}
}

func describePartitions(s *State, c Command, r *Result, before *topicSet) Event {
	switch c := c.(type) {
	case ElectLeaders:
		return describeElections(c, r)
	case AlterISR:
		was := "none"
		if t := before.get(c.Topic); t != nil && c.Partition < len(t.Partitions) {
			was = joined(t.Partitions[c.Partition].ISR)
		}
		return Event{
			Kind: "isr_changed", Object: partitionName(c.Topic, c.Partition), What: fmt.Sprintf("in-sync replicas %s, were %s", joined(c.ISR), was),
		}
	case StartReassign:
		return Event{Kind: "partition_moving", Object: partitionName(c.Topic, c.Partition), What: "replicas move to " + joined(c.Target)}
	case FinishReassign:
		what := "replicas moved"
		if t := s.topics.get(c.Topic); t != nil && c.Partition < len(t.Partitions) {
			what += " to " + joined(t.Partitions[c.Partition].Replicas)
		}
		return Event{Kind: "partition_moved", Object: partitionName(c.Topic, c.Partition), What: what}
	case YieldLeader:
		return Event{Kind: "leader_yielded", Object: partitionName(c.Topic, c.Partition), What: "leader yielded to " + string(c.To)}
	}
	return Event{}
}

// describeElections sums up elections that were proposed together.
func describeElections(c ElectLeaders, r *Result) Event {
	var names []string
	leaders := map[NodeID]bool{}
	var why string
	unclean := false
	for i, e := range c.Elections {
		if i < len(r.Failed) && r.Failed[i] != nil {
			continue
		}
		names = append(names, partitionName(e.Topic, e.Partition))
		leaders[e.Leader] = true
		why = cmp.Or(why, e.Reason)
		unclean = unclean || e.Unclean
	}
	if len(names) == 0 {
		return Event{}
	}
	e := Event{Kind: "leader_elected", Object: someNames(names)}
	switch ids := slices.Sorted(maps.Keys(leaders)); {
	case len(ids) == 1 && ids[0] == "":
		e.Kind, e.What = "partition_offline", "no leader"
	case unclean:
		e.Kind, e.What = "leader_elected_unclean", "leader "+joined(ids)+", an unclean election: messages may be lost"
	default:
		e.What = "leader " + joined(ids)
	}
	if why != "" {
		e.What += " (" + clip(why) + ")"
	}
	return e
}

func partitionName(topic string, partition int) string { return fmt.Sprintf("%s/%d", topic, partition) }

func joined(ids []NodeID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = cmp.Or(string(id), "none")
	}
	return strings.Join(texts, ",")
}

// someNames returns the first few names, and the number of further ones.
func someNames(names []string) string {
	text := strings.Join(names[:min(len(names), eventNames)], " ")
	if more := len(names) - eventNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// clip bounds a text of foreign origin. It cuts no character: a snapshot would store another text.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}
