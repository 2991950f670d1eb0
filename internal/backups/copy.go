package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// pageMessages is how many messages one request asks for; the broker returns fewer if they are large.
const pageMessages = 1000

// deferredPage is how many deferred messages one request asks for.
const deferredPage = 1000

// topicCopy copies one topic.
type topicCopy struct {
	c      *Cluster
	w      *backup.Work
	name   string
	before *backup.Topic // the topic in the latest backup; nil: it is not in there
	made   backup.Topic
	copied int
}

// copy copies the topic: first what its channels still have to deliver, then the
// messages.
func (t *topicCopy) copy(ctx context.Context) error {
	if err := t.w.KeepAlive(ctx); err != nil {
		return err
	}
	first, err := t.describe(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(first.Channels, func(c api.ChannelSummary) bool { return c.Name == Marker }) {
		return errRestoring // it has a part of its messages
	}
	t.made = backup.Topic{Name: t.name, FirstID: first.FirstID}
	positions, last, err := t.positions(ctx, first)
	if err != nil {
		return err
	}
	if t.made.Config, err = json.Marshal(last.Config); err != nil {
		return err
	}
	t.made.Paused = last.Paused
	for i := range first.Partitions { // a partition that was added since has no position
		p := &last.Partitions[i]
		late, err := t.messages(ctx, p, first.Partitions[i].CommittedEnd)
		if err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
		for k := range positions {
			if pos := &positions[k]; pos.Partition == i {
				pos.Pending = add(pos.Pending, first.Partitions[i].CommittedEnd, p.CommittedEnd)
				pos.Deferred = append(pos.Deferred, late...)
			}
		}
	}
	if now, err := t.describe(ctx); err != nil {
		return err
	} else if now.FirstID != first.FirstID {
		return errRecreated // what was copied may be of either
	}
	if len(positions) > 0 {
		t.made.Positions, err = t.w.WritePositions(ctx, positions)
	}
	return err
}

// describe returns the topic as reported by the leaders of all partitions.
func (t *topicCopy) describe(ctx context.Context) (*api.Topic, error) {
	for try := 0; ; try++ {
		about, err := read(ctx, t.c, func(ctx context.Context) (*api.Topic, error) { return t.c.Client.Topic(ctx, t.name) })
		if err != nil {
			return nil, err
		}
		if missing := slices.IndexFunc(about.Partitions, func(p api.Partition) bool { return p.Leader == "" || len(p.MissingNodes) > 0 }); missing < 0 {
			return about, nil
		} else if try == leaderTries {
			return nil, fate.Mark(fmt.Errorf("leader of partition %d does not respond", missing), fate.Refused)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// committed describes the topic once everything that the leaders had at first is committed, so that
// the backup has all messages acknowledged before: a new leader does not know at once the committed
// end of its predecessor.
func (t *topicCopy) committed(ctx context.Context, first *api.Topic) (*api.Topic, error) {
	for try := 0; ; try++ {
		last, err := t.describe(ctx)
		if err != nil {
			return nil, err
		}
		if first.FirstID != last.FirstID {
			return nil, errRecreated
		}
		behind := slices.IndexFunc(first.Partitions, func(p api.Partition) bool {
			now := &last.Partitions[p.Partition]
			return now.CommittedEnd < min(p.LogEnd, now.LogEnd)
		})
		if behind < 0 {
			return last, nil
		}
		if try == leaderTries {
			return nil, fate.Mark(fmt.Errorf("partition %d has messages that are not committed", behind), fate.Refused)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// positions returns what the durable channels still have to deliver, and the topic as it was afterwards. What was read
// from a partition while its leadership moved is read again: until a new leader knows the committed end of its
// predecessor, it returns no messages above its own, and a channel would seem to have finished them.
func (t *topicCopy) positions(ctx context.Context, first *api.Topic) (all []backup.Position, last *api.Topic, err error) {
	if err := t.channels(ctx, first); err != nil {
		return nil, nil, err
	}
	was, moved := first, func(int) bool { return true }
	for try := 0; ; try++ {
		all = slices.DeleteFunc(all, func(p backup.Position) bool { return moved(p.Partition) })
		all, err = t.pending(ctx, first, moved, all)
		if err != nil {
			return nil, nil, err
		}
		if last, err = t.committed(ctx, first); err != nil {
			return nil, nil, err
		}
		epochs := was.Partitions
		moved = func(i int) bool { return epochs[i].Epoch != last.Partitions[i].Epoch }
		at := slices.IndexFunc(first.Partitions, func(p api.Partition) bool { return moved(p.Partition) })
		if at < 0 {
			return all, last, nil
		}
		if try == leaderTries {
			return nil, nil, fate.Mark(fmt.Errorf("the leadership of partition %d moves repeatedly", at), fate.Refused)
		}
		was = last
	}
}

// channels reads the settings of the durable channels.
func (t *topicCopy) channels(ctx context.Context, about *api.Topic) error {
	for i := range about.Channels {
		if about.Channels[i].Ephemeral {
			continue
		}
		name := about.Channels[i].Name
		ch, err := t.channel(ctx, name)
		if t.channelGone(ctx, name, err) {
			continue
		}
		if err != nil {
			return err
		}
		settings, err := json.Marshal(channelSettings{Order: ch.Order, Paused: ch.Paused, Filter: ch.Filter, Policy: ch.Settings().Policy})
		if err != nil {
			return err
		}
		t.made.Channels = append(t.made.Channels, backup.Channel{Name: name, Settings: settings})
	}
	return nil
}

func (t *topicCopy) channel(ctx context.Context, name string) (*api.Channel, error) {
	return read(ctx, t.c, func(ctx context.Context) (*api.Channel, error) { return t.c.Client.Channel(ctx, t.name, name) })
}

// channelGone reports whether a request failed because a channel was deleted. If its topic was too, that
// is for the caller of the copy.
func (t *topicCopy) channelGone(ctx context.Context, name string, err error) bool {
	if api.CodeOf(err) != failure.NotFound || t.c.gone(ctx, t.name) {
		return false
	}
	_, err = t.channel(ctx, name)
	return api.CodeOf(err) == failure.NotFound
}

// pending adds to all what the channels still have to deliver of some partitions. A channel that was deleted meanwhile
// is not in the backup.
func (t *topicCopy) pending(ctx context.Context, first *api.Topic, of func(int) bool, all []backup.Position) ([]backup.Position, error) {
	kept := t.made.Channels[:0]
	for _, ch := range t.made.Channels {
		positions, err := t.pendingOf(ctx, first, of, ch.Name)
		if t.channelGone(ctx, ch.Name, err) {
			all = slices.DeleteFunc(all, func(p backup.Position) bool { return p.Channel == ch.Name })
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("channel %s: %w", ch.Name, err)
		}
		kept, all = append(kept, ch), append(all, positions...)
	}
	t.made.Channels = kept
	return all, nil
}

func (t *topicCopy) pendingOf(ctx context.Context, first *api.Topic, of func(int) bool, channel string) (all []backup.Position, err error) {
	deferred, err := t.deferred(ctx, channel)
	if err != nil {
		return nil, err
	}
	for k := range first.Partitions {
		if !of(k) {
			continue
		}
		p := backup.Position{Channel: channel, Partition: k, Deferred: deferred[k]}
		end := first.Partitions[k].CommittedEnd
		p.Deferred = slices.DeleteFunc(p.Deferred, func(d backup.Deferred) bool { return d.Seq >= end })
		err := t.each(ctx, channel, k, 0, end, func(m *api.Peeked) error {
			if m.Seq < end {
				p.Pending = add(p.Pending, m.Seq, m.Seq+1)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// deferred returns the deferred messages of a channel, by partition and offset.
func (t *topicCopy) deferred(ctx context.Context, channel string) (map[int][]backup.Deferred, error) {
	out := map[int][]backup.Deferred{}
	for q := (api.DeferredQuery{Max: deferredPage}); ; {
		if err := t.w.KeepAlive(ctx); err != nil {
			return nil, err
		}
		page, err := read(ctx, t.c, func(ctx context.Context) (*api.DeferredList, error) {
			return api.DeferredOf(t.c.Client).List(ctx, t.name, channel, q)
		})
		if err != nil {
			return nil, fmt.Errorf("deferred messages: %w", err)
		}
		for _, m := range page.Messages {
			out[m.Partition] = append(out[m.Partition], backup.Deferred{Seq: m.Seq, Due: m.Due})
		}
		if q.Next = page.Next; q.Next == "" {
			for _, list := range out {
				slices.SortFunc(list, func(a, b backup.Deferred) int { return cmp.Compare(a.Seq, b.Seq) })
			}
			return out, nil
		}
	}
}

// add appends [from, end) to ranges.
func add(ranges [][2]uint64, from, end uint64) [][2]uint64 {
	if n := len(ranges); n > 0 {
		if from = max(from, ranges[n-1][1]); from == ranges[n-1][1] {
			ranges[n-1][1] = max(end, from)
			return ranges
		}
	}
	if from >= end {
		return ranges
	}
	return append(ranges, [2]uint64{from, end})
}

// each calls f with the messages of a partition from an offset on: with a channel, those that it has
// not finished by the time of the request; with "", those of the topic below end.
func (t *topicCopy) each(ctx context.Context, channel string, partition int, from, end uint64, f func(*api.Peeked) error) error {
	for tries := 0; ; {
		if channel == "" && from >= end {
			return nil
		}
		if err := t.w.KeepAlive(ctx); err != nil {
			return err
		}
		page, err := read(ctx, t.c, func(ctx context.Context) ([]api.Peeked, error) {
			return t.c.Client.Peek(ctx, t.name, channel, api.PeekOptions{Partition: &partition, From: &from, Max: pageMessages})
		})
		if err != nil {
			return err
		}
		for i := range page {
			if m := &page[i]; channel != "" || m.Seq < end {
				if err := f(m); err != nil {
					return err
				}
			}
		}
		switch n := len(page); {
		case n > 0 && page[n-1].Seq >= end, n == 0 && channel != "":
			return nil
		case n > 0:
			from, tries = page[n-1].Seq+1, 0
		default:
			if from, err = t.absent(ctx, partition, from, end, tries); err != nil {
				return err
			}
			tries++
		}
	}
}

// absent is called when the leader of a partition returns no messages of [from, end), which were committed. It returns
// from where to read: retention has deleted them, or a new leader does not yet know that they are committed.
func (t *topicCopy) absent(ctx context.Context, partition int, from, end uint64, tries int) (uint64, error) {
	about, err := t.describe(ctx)
	switch {
	case err != nil:
		return 0, err
	case about.FirstID != t.made.FirstID:
		return 0, errRecreated
	case about.Partitions[partition].LogStart > from:
		return min(about.Partitions[partition].LogStart, end), nil
	case tries == leaderTries:
		return 0, fate.Mark(fmt.Errorf("the leader does not return the messages from %d on, though those below %d were committed", from, end), fate.Refused)
	}
	return from, pause(ctx)
}

// messages copies the messages of a partition, except those in the previous backup. It returns the messages from the
// offset since on that were deferred when they were published.
func (t *topicCopy) messages(ctx context.Context, p *api.Partition, since uint64) (late []backup.Deferred, err error) {
	had, err := t.had(ctx, p)
	if err != nil {
		return nil, err
	}
	made := backup.Partition{Partition: p.Partition, Start: p.LogStart, End: p.CommittedEnd}
	from := p.LogStart
	if n := len(had); n > 0 {
		from = had[n-1].End
	}
	w := t.w.Messages(had)
	err = t.each(ctx, "", p.Partition, from, p.CommittedEnd, func(m *api.Peeked) error {
		t.copied++
		if m.Seq >= since && m.DeliverAt != nil {
			late = append(late, backup.Deferred{Seq: m.Seq, Due: *m.DeliverAt})
		}
		return w.Add(ctx, Stored(m))
	})
	if err != nil {
		_ = w.Abandon() // the file has no name yet
		return nil, err
	}
	if made.Chunks, err = w.Close(ctx); err != nil {
		return nil, err
	}
	t.made.Partitions = append(t.made.Partitions, made)
	return late, nil
}

// had returns the full chunks of a partition in the previous backup, up to the first that is missing
// in the repository, if the log continues them: the last message in them is unchanged.
func (t *topicCopy) had(ctx context.Context, p *api.Partition) (chunks []backup.Chunk, err error) {
	if t.before == nil || t.before.FirstID != t.made.FirstID || p.Partition >= len(t.before.Partitions) {
		return nil, nil
	}
	for _, c := range t.before.Partitions[p.Partition].Chunks {
		if c.Full && c.End > p.LogStart && c.End <= p.CommittedEnd {
			chunks = append(chunks, c)
		}
	}
	if missing := slices.IndexFunc(chunks, func(c backup.Chunk) bool { return !t.w.Has(&c) }); missing >= 0 {
		chunks = chunks[:missing] // copy the rest again
	}
	if len(chunks) == 0 {
		return nil, nil
	}
	last, same := &chunks[len(chunks)-1], false
	err = t.each(ctx, "", p.Partition, last.End-1, last.End, func(m *api.Peeked) error {
		same = Stored(m).Mark() == last.Last
		return nil
	})
	if !same {
		chunks = nil
	}
	return chunks, err
}
