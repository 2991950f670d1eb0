package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// pageMessages is how many messages one request asks for; the broker returns fewer if they are large.
const pageMessages = 1000

// deferredPage is how many deferred messages one request asks for.
const deferredPage = 1000

// Cluster is a cluster that is backed up, or into which a backup is restored.
type Cluster struct {
	Client  *api.Client
	Timeout time.Duration // of a request
	Now     func() time.Time
}

// ask sends a request. One that is refused for now, as while a leadership moves, is repeated: a backup or a restore
// may take hours.
func ask[T any](ctx context.Context, c *Cluster, f func(context.Context) (T, error)) (v T, err error) {
	for try := 0; ; try++ {
		v, err = askOnce(ctx, c, f)
		if err == nil || try == leaderTries || !refusedForNow(err) {
			return v, err
		}
		if ended := pause(ctx, leaderPause); ended != nil {
			return v, err
		}
	}
}

func askOnce[T any](ctx context.Context, c *Cluster, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return f(ctx)
}

// refusedForNow reports whether a node has refused a request, without any effect, that may succeed later.
func refusedForNow(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code.Retryable() && e.Fate == fate.Refused.String()
}

// Create describes the backup to be made.
type Create struct {
	Patterns []string // of topics; none: all
	Tool     string
	Progress func(topic string, messages int) // may be nil
}

// Created describes a completed backup.
type Created struct {
	Manifest *backup.Manifest
	Copied   int      // messages; the others were in the directory already
	Gone     []string // topics that were deleted meanwhile
}

var errNoTopic = fate.Refuse("no topic matches")

// Make adds a backup to a repository. After an error the repository has no complete backup, unless
// the fate of the error is not refused.
func (c *Cluster) Make(ctx context.Context, r *backup.Repository, o Create) (*Created, error) {
	info, err := ask(ctx, c, c.Client.Cluster)
	if err != nil {
		return nil, err
	}
	topics, err := c.chosen(ctx, o.Patterns)
	if err != nil {
		return nil, err
	}
	now := c.Now().UTC()
	m := &backup.Manifest{Format: backup.Format, ID: backup.ID(now), Created: now, Tool: o.Tool, Cluster: info.ClusterID}
	w, err := r.Begin(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	made := &Created{Manifest: m}
	if err := c.fill(ctx, r, w, o, topics, made); err != nil {
		_ = w.Abandon(ctx) // otherwise it is listed as incomplete
		return nil, fate.Mark(err, fate.Refused)
	}
	if err := w.Complete(ctx, m); err != nil {
		if fate.Of(err) == fate.Refused {
			_ = w.Abandon(ctx) // likewise
		}
		return nil, err
	}
	return made, nil
}

// fill copies the topics.
func (c *Cluster) fill(ctx context.Context, r *backup.Repository, w *backup.Work, o Create, topics []string, made *Created) error {
	m := made.Manifest
	before, err := r.Load(ctx, "")
	if err != nil && !errors.Is(err, backup.ErrNoBackup) && !errors.Is(err, backup.ErrNewerFormat) && fate.Of(err) != fate.Corrupt {
		return err
	}
	for _, name := range topics { // all is copied if there is no earlier backup
		t := topicCopy{c: c, w: w, name: name}
		if before != nil && before.Cluster == m.Cluster {
			t.before = before.Topic(name)
		}
		switch err := t.copy(ctx); {
		case api.CodeOf(err) == failure.NotFound && c.gone(ctx, name):
			made.Gone = append(made.Gone, name)
			continue
		case err != nil:
			return fmt.Errorf("topic %s: %w", name, err)
		}
		m.Topics = append(m.Topics, t.made)
		made.Copied += t.copied
		if o.Progress != nil {
			o.Progress(name, t.copied)
		}
	}
	return nil
}

// gone reports whether a topic was deleted.
func (c *Cluster) gone(ctx context.Context, name string) bool {
	_, err := ask(ctx, c, func(ctx context.Context) (*api.Topic, error) { return c.Client.Topic(ctx, name) })
	return api.CodeOf(err) == failure.NotFound
}

// chosen returns the names of the topics to back up. Ephemeral topics are left out.
func (c *Cluster) chosen(ctx context.Context, patterns []string) (names []string, err error) {
	topics, err := ask(ctx, c, c.Client.Topics)
	if err != nil {
		return nil, err
	}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fate.Mark(fmt.Errorf("topic pattern %q: %w", p, err), fate.Refused)
		}
	}
	for i := range topics {
		name := topics[i].Name
		fits := func(p string) bool { ok, _ := path.Match(p, name); return ok } // the pattern was checked
		if !topics[i].Ephemeral && (len(patterns) == 0 || slices.ContainsFunc(patterns, fits)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && len(patterns) > 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(patterns, ", "), errNoTopic)
	}
	return names, nil
}

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
	positions, err := t.channels(ctx, first)
	if err != nil {
		return err
	}
	last, err := t.committed(ctx, first)
	if err != nil {
		return err
	}
	config, err := json.Marshal(last.Config)
	if err != nil {
		return err
	}
	if first.FirstID != last.FirstID {
		return fate.Mark(fmt.Errorf("topic was deleted and recreated during the backup; repeat the backup"), fate.Refused)
	}
	t.made = backup.Topic{Name: t.name, FirstID: last.FirstID, Paused: last.Paused, Config: config, Channels: t.made.Channels}
	for i := range positions {
		p := &positions[i]
		p.Pending = add(p.Pending, first.Partitions[p.Partition].CommittedEnd, last.Partitions[p.Partition].CommittedEnd)
	}
	if len(positions) > 0 {
		if t.made.Positions, err = t.w.WritePositions(ctx, positions); err != nil {
			return err
		}
	}
	for i := range first.Partitions { // a partition that was added since has no position
		if err := t.messages(ctx, &last.Partitions[i]); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
	}
	return nil
}

// describe returns the topic as reported by the leaders of all partitions.
func (t *topicCopy) describe(ctx context.Context) (*api.Topic, error) {
	for try := 0; ; try++ {
		about, err := ask(ctx, t.c, func(ctx context.Context) (*api.Topic, error) { return t.c.Client.Topic(ctx, t.name) })
		if err != nil {
			return nil, err
		}
		if missing := slices.IndexFunc(about.Partitions, func(p api.Partition) bool { return p.Leader == "" || len(p.MissingNodes) > 0 }); missing < 0 {
			return about, nil
		} else if try == leaderTries {
			return nil, fate.Mark(fmt.Errorf("leader of partition %d does not respond", missing), fate.Refused)
		}
		if err := pause(ctx, leaderPause); err != nil {
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
		if err != nil || first.FirstID != last.FirstID {
			return last, err
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
		if err := pause(ctx, leaderPause); err != nil {
			return nil, err
		}
	}
}

// Bounds of the wait for the leader of a partition.
const (
	leaderTries = 60
	leaderPause = 500 * time.Millisecond
)

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// channels returns what the durable channels still have to deliver.
func (t *topicCopy) channels(ctx context.Context, about *api.Topic) (all []backup.Position, err error) {
	for i := range about.Channels {
		name := about.Channels[i].Name
		if about.Channels[i].Ephemeral {
			continue
		}
		ch, err := ask(ctx, t.c, func(ctx context.Context) (*api.Channel, error) { return t.c.Client.Channel(ctx, t.name, name) })
		if err != nil {
			return nil, err
		}
		settings, err := json.Marshal(channelSettings{Order: ch.Order, Paused: ch.Paused, Filter: ch.Filter, Policy: ch.Settings().Policy})
		if err != nil {
			return nil, err
		}
		t.made.Channels = append(t.made.Channels, backup.Channel{Name: name, Settings: settings})
		deferred, err := t.deferred(ctx, name)
		if err != nil {
			return nil, err
		}
		for k := range about.Partitions {
			p := backup.Position{Channel: name, Partition: k, Deferred: deferred[k]}
			err := t.each(ctx, name, k, 0, about.Partitions[k].CommittedEnd, func(m *api.Peeked) error {
				p.Pending = add(p.Pending, m.Seq, m.Seq+1)
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("channel %s: %w", name, err)
			}
			all = append(all, p)
		}
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
		page, err := ask(ctx, t.c, func(ctx context.Context) (*api.DeferredList, error) {
			return api.DeferredOf(t.c.Client).List(ctx, t.name, channel, q)
		})
		if err != nil {
			return nil, fmt.Errorf("channel %s: deferred messages: %w", channel, err)
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
	for {
		if channel == "" && from >= end {
			return nil
		}
		if err := t.w.KeepAlive(ctx); err != nil {
			return err
		}
		page, err := ask(ctx, t.c, func(ctx context.Context) ([]api.Peeked, error) {
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
		if len(page) == 0 || page[len(page)-1].Seq >= end {
			return nil
		}
		from = page[len(page)-1].Seq + 1
	}
}

// messages copies the messages of a partition, except those in the previous backup.
func (t *topicCopy) messages(ctx context.Context, p *api.Partition) error {
	had, err := t.had(ctx, p)
	if err != nil {
		return err
	}
	made := backup.Partition{Partition: p.Partition, Start: p.LogStart, End: p.CommittedEnd}
	from := p.LogStart
	if n := len(had); n > 0 {
		from = had[n-1].End
	}
	w := t.w.Messages(had)
	err = t.each(ctx, "", p.Partition, from, p.CommittedEnd, func(m *api.Peeked) error {
		t.copied++
		return w.Add(ctx, Stored(m))
	})
	if err != nil {
		_ = w.Abandon() // the file has no name yet
		return err
	}
	if made.Chunks, err = w.Close(ctx); err != nil {
		return err
	}
	t.made.Partitions = append(t.made.Partitions, made)
	return nil
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

// Stored returns a message in the form of a backup.
func Stored(m *api.Peeked) *backup.Message {
	s := &backup.Message{
		Seq: m.Seq, ID: m.ID, Timestamp: m.Timestamp, Key: m.Key, Dedup: m.Dedup, TTLMS: m.TTLMS, DeliverAt: m.DeliverAt, TraceID: m.TraceIDHex, Body: m.Body,
	}
	if string(m.Headers) != "{}" {
		s.Headers = m.Headers
	}
	return s
}

// ids are those of the messages of a topic.
type ids struct{ n seq.Numbering }

// idsOf returns the ids of the topic whose first message has one.
func idsOf(first string) (ids, error) {
	id, err := seq.ParseID([]byte(first))
	if err != nil {
		return ids{}, fmt.Errorf("first id %q: %w", first, err)
	}
	return ids{seq.NumberingFrom(id)}, nil
}

// id returns the id of a message.
func (i ids) id(partition int, o uint64) string {
	return i.n.ID(seq.NewMessageID(partition, seq.Offset(o))).String()
}
