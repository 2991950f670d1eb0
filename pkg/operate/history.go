package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// errNotForward refuses a move that would go backwards. It is marked fate.Refused.
var errNotForward = fate.Refuse("the channel is already past that offset")

// placeArgs asks the leader of a partition where a channel is and what a move of it would do.
type placeArgs struct {
	channelAt
	To    *SeekTo `json:"to,omitempty"`    // nil: the end
	Exact bool    `json:"exact,omitempty"` // messages for other channels do not count
}

var askPlace = question[placeArgs, topic.Place]{"place", func(o *Node, ctx context.Context, a placeArgs) (topic.Place, error) {
	part, c, err := a.here(o)
	if err != nil {
		return topic.Place{}, err
	}
	var target *seq.Offset
	if a.To != nil {
		at, err := a.To.in(part)
		if err != nil {
			return topic.Place{}, err
		}
		target = &at
	}
	p := c.Operator().Place(target)
	if a.Exact {
		p = c.Operator().Exact(ctx, p)
	}
	p.Finished = p.Finished[:min(len(p.Finished), meta.MaxSavedRanges)]
	return p, nil
}}

// returnArgs asks the leader of a partition to move a channel back to a saved position.
type returnArgs struct {
	channelAt
	Version meta.Incarnation    `json:"version"` // of the channel whose position was saved
	Saved   meta.SavedPartition `json:"saved"`
}

// askReturn is answered with the number of finished messages that are gone.
var askReturn = question[returnArgs, int64]{"return", func(o *Node, ctx context.Context, a returnArgs) (int64, error) {
	part, c, err := a.here(o)
	if err != nil {
		return 0, err
	}
	// A channel that was created since has begun somewhere behind the target: what is between has no consumer finished.
	if t := o.Meta.Topic(a.Topic); t == nil || t.Channels[a.Channel] == nil || t.Channels[a.Channel].Version != a.Version {
		a.Saved.Target = 0
	}
	to, finished, gone := returnTo(&a.Saved, part.Log().Start(), part.Log().CommittedEnd())
	if err := c.Operator().Move(func(s *channel.State) { s.Operator().Return(to, finished, a.Saved.Target) }); err != nil {
		return 0, err
	}
	return gone, part.Flush(ctx)
}}

// returnTo returns the part of a saved position that the log still has: what is below start, retention has deleted, and
// from committed on, another leader may have stored other messages. gone counts deleted messages that were unfinished.
func returnTo(saved *meta.SavedPartition, start, committed seq.Offset) (to seq.Offset, finished []position.Range, gone int64) {
	was := position.Position{Floor: saved.Floor}
	for _, r := range saved.Finished {
		was.Finished = append(was.Finished, position.Range{From: r[0], End: r[1]})
	}
	_, gone = was.Moved(start)
	was = was.Below(committed)
	return max(was.Floor, start), was.Finished, gone
}

// operatorMove is an operator's move of a channel.
type operatorMove struct {
	o         *Node
	topic     *meta.Topic
	channel   string
	verb      string
	to        *SeekTo     // nil: the end
	partition int         // AnyPartition: all
	forward   bool        // a move back is refused
	exact     bool        // of an operator who wants to know the effect
	restores  *meta.Saved // the position to which a restore moves the channel; nil: it is none
}

// plan asks the leaders of the partitions for the channel's position, and the effect of the move
// there. The error joins those of the partitions whose leader did not answer.
func (m operatorMove) plan(ctx context.Context) (moves []api.PartitionMove, saved []meta.SavedPartition, err error) {
	partitions := []int{m.partition}
	if m.partition == host.AnyPartition {
		partitions = partitionsOf(m.topic)
	}
	var mu sync.Mutex // guards what follows
	moves = []api.PartitionMove{}
	err = everywhere(partitions, func(i int) error {
		p, err := readAtLeader(ctx, m.o, askPlace, m.topic.Name, i, placeArgs{channelAt{m.topic.Name, m.channel, i}, m.to, m.exact})
		if err != nil {
			return err
		}
		if m.forward && p.Target < p.Floor {
			return fmt.Errorf("%s/%d: at %d: %w", m.topic.Name, i, p.Floor, errNotForward)
		}
		s := meta.SavedPartition{Partition: i, Floor: p.Floor, Target: p.Target}
		for _, r := range p.Finished {
			s.Finished = append(s.Finished, [2]seq.Offset{r.From, r.End})
		}
		mu.Lock()
		defer mu.Unlock()
		moves = append(moves, api.PartitionMove{
			Partition: i, Now: uint64(p.Floor), Target: uint64(p.Target), Redelivered: p.Redelivered, Skipped: p.Skipped,
		})
		saved = append(saved, s)
		return nil
	})
	slices.SortFunc(moves, func(a, b api.PartitionMove) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortFunc(saved, func(a, b meta.SavedPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	return moves, saved, err
}

// savable returns why the channel's position cannot be saved, if the metadata has no leader: without the question, a
// request waits for all leaders and then for the metadata, longer than its client does, and the outcome seems unknown.
func (m operatorMove) savable() error {
	if m.saves() {
		if _, err := decidable(m.o); err != nil {
			return m.unsaved(err)
		}
	}
	return nil
}

// saves reports whether the channel's position is saved before it is moved.
func (m operatorMove) saves() bool {
	return !meta.IsEphemeral(m.channel) && !meta.IsEphemeral(m.topic.Name) && (m.to == nil || !m.to.Unsaved)
}

// save stores the channel's position before it is moved. Of the ranges finished out of order it
// stores as many as fit.
func (m operatorMove) save(ctx context.Context, saved []meta.SavedPartition) error {
	if !m.saves() || len(saved) == 0 {
		return nil
	}
	room := meta.MaxSavedRanges
	for i := range saved {
		saved[i].Finished = saved[i].Finished[:min(len(saved[i].Finished), room)]
		room -= len(saved[i].Finished)
	}
	v := meta.Saved{
		At: time.Now().UnixNano(), Verb: m.verb, Topic: m.topic.Name, Incarnation: m.topic.Incarnation, Channel: m.channel, Partitions: saved,
	}
	if m.restores != nil {
		v.Restores = m.restores.Index
	}
	if c := m.topic.Channels[m.channel]; c != nil {
		v.Order, v.Policy, v.Filter, v.Version, v.Paused = c.Order, c.Policy, c.Filter, c.Version, c.Paused
	}
	if _, err := m.o.host.Propose(ctx, meta.SavePositions{Saved: v}); err != nil {
		return m.unsaved(host.OfThisIncarnation(err))
	}
	return nil
}

// unsaved says that the channel is as before because its position was not saved. Whether the metadata has stored the
// position after all does not matter to the channel.
func (m operatorMove) unsaved(err error) error {
	what := "moved"
	switch m.verb {
	case SavedDelete:
		what = "deleted, it keeps its position and its messages"
	case savedEmpty:
		what = "emptied, it keeps its position and its messages"
	}
	if fate.Of(err) != fate.Refused {
		err = fmt.Errorf("%w: %v", failure.NotSaved, err) //nolint:errorlint // its code and hint are about the saved position
	}
	return fmt.Errorf("channel %s/%s not %s: cannot save its position, without which the change could not be undone: %w", m.topic.Name, m.channel, what, err)
}

// move saves the channel's position and moves it. Partitions whose leaders do not answer stay
// unchanged, and the error names them.
func (m operatorMove) move(ctx context.Context) error {
	if err := m.savable(); err != nil {
		return err
	}
	moves, saved, planned := m.plan(ctx)
	stays := !slices.ContainsFunc(moves, func(x api.PartitionMove) bool { return x.Redelivered+x.Skipped > 0 })
	if stays {
		saved = nil // there is nothing to undo
	}
	if err := m.save(ctx, saved); err != nil {
		return err
	}
	var c tally
	err := fan.Join(len(moves), askTogether, func(i int) error {
		x := &moves[i]
		a := changeArgs{channelAt{m.topic.Name, m.channel, x.Partition}, verbSeek, &SeekTo{Offset: new(seq.Offset(x.Target))}}
		_, err := atLeader(ctx, m.o, askChange, m.topic.Name, x.Partition, a)
		return c.note(err)
	})
	asked := 1
	if m.partition == host.AnyPartition {
		asked = len(m.topic.Partitions)
	}
	return c.outcome(asked, errors.Join(planned, err))
}

// PlanMove returns the effect of SeekChannel, with nil of EmptyChannel, or with Deleted of RestoreChannel, without
// changing anything.
func (o *Contents) PlanMove(ctx context.Context, name, channel string, to *SeekTo) ([]api.PartitionMove, error) {
	if to != nil && to.Deleted {
		return planRestore(ctx, o.node, name, channel, to.Replace)
	}
	m, err := newMove(o.node, name, channel, "", to)
	if err == nil {
		err = m.savable()
	}
	if err != nil {
		return nil, err
	}
	m.exact = true
	moves, _, err := m.plan(ctx)
	return moves, err
}

func newMove(o *Node, name, channel, verb string, to *SeekTo) (operatorMove, error) {
	t, err := o.topics.Topic(name)
	if err != nil {
		return operatorMove{}, err
	}
	m := operatorMove{o: o, topic: t, channel: channel, verb: verb, to: to, partition: host.AnyPartition}
	if to != nil && to.Partition != nil {
		if m.partition = *to.Partition; m.partition < 0 || m.partition >= len(t.Partitions) {
			return m, fmt.Errorf("%s/%d: %w", name, m.partition, failure.PartitionNotFound)
		}
	}
	return m, nil
}

// EmptyChannel drops all messages of a channel, in every partition: waiting, deferred and in
// flight.
func (o *Contents) EmptyChannel(ctx context.Context, name, channel string) error {
	m, err := newMove(o.node, name, channel, savedEmpty, nil)
	if err != nil {
		return err
	}
	return m.move(ctx)
}

// SeekChannel moves a channel, in every partition of its topic or in the one that to names.
func (o *Contents) SeekChannel(ctx context.Context, name, channel string, to SeekTo) error {
	m, err := newMove(o.node, name, channel, "seek", &to)
	if err != nil {
		return err
	}
	if m.forward = to.Forward; m.forward {
		m.verb = "skip"
	}
	return m.move(ctx)
}

// ChannelHistory returns the saved positions of a channel, the last first.
func (o *Contents) ChannelHistory(name, channel string) ([]*meta.Saved, error) {
	t, err := o.node.topics.Topic(name)
	if err != nil {
		return nil, err
	}
	return meta.HistoryOf(o.node.Meta.View()).Of(t, channel), nil
}

// UndoChannel returns a channel to its position before an operator last moved or emptied it, and
// drops that saved position: the next call undoes the change before.
func (o *Contents) UndoChannel(ctx context.Context, name, channel string) (api.UndoneMove, error) {
	if err := catchUp(ctx, o.node, name, channel); err != nil {
		return api.UndoneMove{}, err
	}
	t, err := o.node.topics.Topic(name)
	if err != nil {
		return api.UndoneMove{}, err
	}
	if t.Channels[channel] == nil {
		return api.UndoneMove{}, failure.ChannelNotFound
	}
	all := meta.HistoryOf(o.node.Meta.View()).Of(t, channel)
	all = slices.DeleteFunc(all, func(v *meta.Saved) bool { return v.Verb == SavedDelete })
	if len(all) == 0 {
		return api.UndoneMove{}, failure.NothingToUndo
	}
	return undo(ctx, o.node, all[0])
}

// catchUp returns once this node knows every change that was confirmed before, by any node. The position to return
// to must not be chosen without the last ones.
func catchUp(ctx context.Context, o *Node, name, channel string) error {
	_, err := o.host.Propose(ctx, meta.CatchUp{})
	if err != nil && fate.Of(err) != fate.Refused {
		err = fmt.Errorf("%w: %v", failure.NotSaved, err) //nolint:errorlint // the channel did not change, whatever the command did
	}
	if err != nil {
		return fmt.Errorf("channel %s/%s is as before: cannot learn its last change: %w", name, channel, err)
	}
	return nil
}

// SavedDelete is the verb of positions saved when a channel was deleted, and savedEmpty when it was emptied.
const (
	SavedDelete = "delete"
	savedEmpty  = "empty"
)

// RestoreChannel recreates a deleted channel at its last position. With replace, a channel with the name
// that was created since, for example by a consumer that reconnected, is moved to that position and gets
// the settings of the deleted one, and the messages that are in the log for that one alone; its own position
// is saved, for UndoChannel. Without replace, such a channel is refused with failure.ChannelAgain.
func (o *Contents) RestoreChannel(ctx context.Context, name, channel string, replace bool) (api.UndoneMove, error) {
	t, v, err := restorable(ctx, o.node, name, channel, replace)
	if err != nil {
		return api.UndoneMove{}, err
	}
	if t.Channels[channel] == nil {
		err = o.node.topics.EnsureChannel(ctx, meta.CreateChannel{Topic: name, Channel: channel, Order: v.Order, Policy: v.Policy, Filter: v.Filter, Paused: v.Paused, Version: v.Version})
	} else {
		err = replaceChannel(ctx, o.node, t, v, meta.HistoryOf(o.node.Meta.View()).Of(t, channel)[0])
	}
	if err != nil {
		return api.UndoneMove{}, fmt.Errorf("%s/%s: %w", name, channel, err)
	}
	u, err := undo(ctx, o.node, v)
	if err != nil { // the channel exists, with the settings of the deleted one
		err = fate.Mark(fmt.Errorf("restore of %s/%s incomplete; repeat it with replace: %v", name, channel, err), fate.Uncertain) //nolint:errorlint // its code says that nothing changed
	}
	return u, err
}

// restorable returns the position of a deleted channel to which RestoreChannel restores it, or why it would not.
func restorable(ctx context.Context, o *Node, name, channel string, replace bool) (*meta.Topic, *meta.Saved, error) {
	if err := catchUp(ctx, o, name, channel); err != nil {
		return nil, nil, err
	}
	t, err := o.topics.Topic(name)
	if err != nil {
		return nil, nil, err
	}
	all := meta.HistoryOf(o.Meta.View()).Of(t, channel)
	is := t.Channels[channel]
	i := slices.IndexFunc(all, func(v *meta.Saved) bool { // one with its own version was not deleted after all
		return v.Verb == SavedDelete && (is == nil || v.Version != is.Version)
	})
	switch {
	case i < 0 && is != nil:
		err = failure.ChannelThere
	case i < 0:
		err = failure.NothingToUndo
	case is != nil && !replace:
		err = fmt.Errorf("%w, at %s", failure.ChannelAgain, time.Unix(0, all[i].At).UTC().Format(time.RFC3339))
	default:
		return t, all[i], nil
	}
	return nil, nil, fmt.Errorf("%s/%s: %w", name, channel, err)
}

// planRestore returns the effect of RestoreChannel on the channel that it would replace, without changing
// anything. If there is none, each partition only has the position of the deleted channel.
func planRestore(ctx context.Context, o *Node, name, channel string, replace bool) ([]api.PartitionMove, error) {
	t, v, err := restorable(ctx, o, name, channel, replace)
	if err != nil {
		return nil, err
	}
	moves := make([]api.PartitionMove, len(v.Partitions))
	err = fan.Join(len(moves), askTogether, func(i int) error {
		saved := &v.Partitions[i]
		moves[i] = api.PartitionMove{Partition: saved.Partition, Now: uint64(saved.Floor), Target: uint64(saved.Floor)}
		if t.Channels[channel] == nil {
			return nil
		}
		to := &SeekTo{Offset: new(saved.Floor)}
		p, err := readAtLeader(ctx, o, askPlace, name, saved.Partition, placeArgs{channelAt: channelAt{name, channel, saved.Partition}, To: to})
		if err != nil {
			return err
		}
		both, only := finishedIn(saved.Finished, p)
		moves[i].Now, moves[i].Target = uint64(p.Floor), uint64(p.Target)
		moves[i].Redelivered, moves[i].Skipped = p.Redelivered-both, p.Skipped+only
		return nil
	})
	return moves, err
}

// finishedIn counts the messages of ranges, above the target of a move, that are finished at a place, and the others.
func finishedIn(ranges [][2]seq.Offset, p topic.Place) (finished, others int64) {
	for _, r := range ranges {
		from, end := max(r[0], p.Target), r[1]
		if from >= end {
			continue
		}
		in := max(0, int64(min(end, p.Floor))-int64(from))
		for _, f := range p.Finished {
			in += max(0, int64(min(end, f.End))-int64(max(from, f.From)))
		}
		finished, others = finished+in, others+int64(end-from)-in
	}
	return finished, others
}

// replaceChannel gives a channel the settings of the deleted one of the same name, and what is in the log for that
// alone, and saves its position, unless last, which was saved last, is of such a restore that failed in part. Its
// version stays. To create it again with that of the deleted one, it would have to be deleted first,
// which disconnects its consumers, of which one may create it before the restore does, and nothing would
// keep its messages in the log meanwhile.
func replaceChannel(ctx context.Context, o *Node, t *meta.Topic, v, last *meta.Saved) error {
	m := operatorMove{o: o, topic: t, channel: v.Channel, verb: "restore", partition: host.AnyPartition, restores: v}
	_, saved, err := m.plan(ctx)
	if err != nil {
		return err
	}
	change := meta.AlterChannel{Topic: t.Name, Channel: v.Channel, Order: &v.Order, Policy: new(policy.Exactly(v.Policy)), Filter: &v.Filter, Paused: &v.Paused, Restores: v.Version}
	if err := o.topics.Change(ctx, t.Name, change); err != nil {
		return err
	}
	if last.Restores == v.Index && last.Version == t.Channels[v.Channel].Version {
		return nil // an undo returns to where it was before the first try
	}
	if err := m.save(ctx, saved); err != nil {
		return fate.Mark(fmt.Errorf("its settings are changed, its position is not; repeat the restore: %v", err), fate.Uncertain) //nolint:errorlint // its code says that nothing changed
	}
	return nil
}

// undo returns a channel to a saved position in all of its partitions, and drops that.
func undo(ctx context.Context, o *Node, v *meta.Saved) (api.UndoneMove, error) {
	u := api.UndoneMove{
		Topic: v.Topic, Channel: v.Channel, Verb: v.Verb, At: time.Unix(0, v.At).UTC(), Partitions: make([]api.UndonePartition, len(v.Partitions)),
	}
	if t := o.Meta.Topic(v.Topic); t != nil && v.Verb == SavedDelete {
		u.Unsaved = v.UnsavedIn(t)
	}
	var c tally
	err := fan.Join(len(v.Partitions), askTogether, func(i int) error {
		p := v.Partitions[i]
		gone, err := atLeader(ctx, o, askReturn, v.Topic, p.Partition, returnArgs{channelAt{v.Topic, v.Channel, p.Partition}, v.Version, p})
		u.Partitions[i] = api.UndonePartition{Partition: p.Partition, Confirmed: uint64(p.Floor), Gone: gone}
		return c.note(err)
	})
	if err != nil {
		return u, fmt.Errorf("undo incomplete; repeat it: %w", c.outcome(len(v.Partitions), err))
	}
	_, err = o.host.Propose(ctx, meta.DropSaved{Saved: v.Index})
	if err == nil || errors.Is(err, failure.SavedNotFound) { // another request did the same
		return u, nil
	}
	return u, fate.Mark(fmt.Errorf("undo incomplete; repeat it: the channel is moved, but the saved position is kept: %v", err), fate.Uncertain) //nolint:errorlint // likewise
}

// saveDeleted saves the position of a channel that is about to be deleted, and returns its version. A partition whose
// leader does not answer is not saved, and does not prevent the deletion.
func saveDeleted(ctx context.Context, o *Node, name, channel string) (meta.Incarnation, error) {
	m, err := newMove(o, name, channel, SavedDelete, nil)
	if err != nil {
		return 0, err
	}
	c := m.topic.Channels[channel]
	if c == nil {
		return 0, failure.ChannelNotFound
	}
	if err := m.savable(); err != nil {
		return 0, err
	}
	_, saved, _ := m.plan(ctx) // as much as is known
	if at := (&meta.Saved{Partitions: saved}).UnsavedIn(m.topic); len(at) > 0 && !meta.IsEphemeral(name) {
		o.Log.Warn("cannot save the position of a deleted channel in partitions whose leaders do not respond; a restored channel begins at their end", "topic", name, "channel", channel, "partitions", at)
	}
	return c.Version, m.save(ctx, saved)
}
