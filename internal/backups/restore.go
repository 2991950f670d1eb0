package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/header"
)

// Marker is a channel that a topic has while it is being restored, and keeps if the restore is
// interrupted.
const Marker = "restore-incomplete"

// Limits of one request of a restore.
const (
	publishMessages = 500
	publishBytes    = 1 << 20 // of bodies and headers; a larger message is sent alone
	finishTogether  = 16
)

// Errors with which a restore is refused. Each is marked fate.Refused.
var (
	ErrTopicThere = fate.Refuse("topic exists; nothing was changed. Restore it under another name with --as, or delete it first")
	ErrBrokenOff  = fate.Refuse("an earlier restore of the topic was interrupted; purge the topic (brokerctl topic delete TOPIC --purge --yes) and repeat the command")
)

// Restored describes the restored part of a topic.
type Restored struct {
	Topic    string `json:"topic"`
	As       string `json:"as"`
	Messages int    `json:"messages"`
	Pending  uint64 `json:"pending"` // messages that the channels still have to deliver, in total
	Channels int    `json:"channels"`
	DryRun   bool   `json:"dry_run"`
}

// restoring restores one topic.
type restoring struct {
	c         *Cluster
	d         *backup.Repository
	t         *backup.Topic
	as        string
	replicas  int                        // 0: as in the backup
	config    api.Config                 // of the topic in the backup
	most      int64                      // max-bytes of the topic while it is restored
	positions map[int][]*backup.Position // of each partition, one for each channel
	settings  map[string]channelSettings
	done      Restored
}

// Restore creates a topic from a backup under a name, with all of its messages and channels. replicas
// is the number of replicas of each partition; 0: as in the backup.
func (c *Cluster) Restore(ctx context.Context, d *backup.Repository, t *backup.Topic, as string, replicas int, dry bool) (Restored, error) {
	r := &restoring{
		c: c, d: d, t: t, as: as, replicas: replicas, positions: map[int][]*backup.Position{}, settings: map[string]channelSettings{},
		done: Restored{Topic: t.Name, As: as, Channels: len(t.Channels), DryRun: dry},
	}
	if err := r.prepare(ctx); err != nil || dry {
		return r.done, err
	}
	if err := r.create(ctx); err != nil {
		return r.done, err
	}
	for i := range t.Partitions {
		p := &partitionRestore{r: r, p: &t.Partitions[i]}
		if err := p.restore(ctx); err != nil {
			return r.done, fmt.Errorf("partition %d: %w", i, err)
		}
		r.done.Messages += p.count
	}
	return r.done, r.open(ctx)
}

// prepare reads what does not depend on the cluster, and refuses a name that is taken.
func (r *restoring) prepare(ctx context.Context) error {
	if err := json.Unmarshal(r.t.Config, &r.config); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	r.most = r.config.MaxBytes
	for _, ch := range r.t.Channels {
		var s channelSettings
		if err := json.Unmarshal(ch.Settings, &s); err != nil {
			return fmt.Errorf("channel %s: %w", ch.Name, err)
		}
		r.settings[ch.Name] = s
	}
	if r.t.Positions != nil {
		if err := r.d.EachPosition(ctx, r.t.Positions, func(p *backup.Position) error {
			r.positions[p.Partition] = append(r.positions[p.Partition], p)
			for _, x := range p.Pending {
				r.done.Pending += x[1] - x[0]
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if r.done.DryRun {
		for i := range r.t.Partitions {
			r.done.Messages += r.t.Partitions[i].Count()
		}
	}
	is, err := read(ctx, r.c, func(ctx context.Context) (*api.Topic, error) { return r.c.Client.Topic(ctx, r.as) })
	switch {
	case api.CodeOf(err) == failure.NotFound:
		return r.admissible(ctx)
	case err != nil:
		return err
	case slices.ContainsFunc(is.Channels, func(c api.ChannelSummary) bool { return c.Name == Marker }):
		return fmt.Errorf("topic %s: %w", r.as, ErrBrokenOff)
	}
	return fmt.Errorf("topic %s: %w", r.as, ErrTopicThere)
}

// admissible asks the cluster whether it would create the topic, and compares the messages with its limits.
func (r *restoring) admissible(ctx context.Context) error {
	if _, err := r.makeTopic(ctx, r.patch(), true); err != nil {
		return err
	}
	t, err := r.makeTopic(ctx, r.lenient(), true)
	if err != nil {
		return err
	}
	user, err := read(ctx, r.c, r.c.Client.Access.Self)
	if err != nil {
		return err
	}
	if !may(user, access.Demand{Right: access.Publish, Topic: r.as}) {
		return api.Errorf(failure.Forbidden, "user %q has no rule for publish %s: nothing was restored", user.User, r.as)
	}
	admin := may(user, access.Demand{Right: access.Admin})
	for i := range r.t.Partitions {
		for k := range r.t.Partitions[i].Chunks {
			err := r.d.EachMessage(ctx, &r.t.Partitions[i].Chunks[k], func(m *backup.Message) error {
				if n := len(m.Body); n > t.MessageLimit && t.MessageLimit > 0 {
					e := api.Errorf(failure.TooLarge, "topic %s: message %d/%d has %d bytes, the limit of the cluster is %d: nothing was restored", r.t.Name, i, m.Seq, n, t.MessageLimit)
					e.Hint = "raise max-msg-size on all nodes first"
					return e
				}
				own := m.Headers
				if len(m.HeadersBase64) > 0 {
					own = m.HeadersBase64
				}
				if _, err := header.Parse(own); errors.Is(err, header.ErrWritten) && !admin {
					return api.Errorf(failure.Forbidden, "topic %s: message %d/%d is a dead letter, which only an administrator may restore: nothing was restored", r.t.Name, i, m.Seq)
				}
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// may reports whether the user of the client may do something.
func may(user *api.Self, d access.Demand) bool {
	return !user.Enabled || slices.ContainsFunc(user.Rules, func(r api.Rule) bool {
		return access.Rule{Right: access.Right(r.Right), Topic: r.Topic, Channel: r.Channel}.Grants(d)
	})
}

// patch returns the configuration of the restored topic.
func (r *restoring) patch() api.ConfigPatch {
	patch := r.config.Patch()
	if r.replicas > 0 {
		patch.Replicas, patch.MinISR = &r.replicas, nil
	}
	return patch
}

// lenient returns the configuration of the topic while it is restored: the topic may have messages from before its
// limit was reduced.
func (r *restoring) lenient() api.ConfigPatch {
	patch := r.patch()
	patch.MaxMessageBytes = nil
	return patch
}

// makeTopic creates the topic, or only asks what would be created.
func (r *restoring) makeTopic(ctx context.Context, patch api.ConfigPatch, dry bool) (*api.Topic, error) {
	req := api.CreateTopic{Name: r.as, Config: patch, DryRun: dry}
	if dry {
		req.Channels = r.channels()
	}
	return ask(ctx, r.c, func(ctx context.Context) (*api.Topic, error) { return r.c.Client.CreateTopic(ctx, req) })
}

// channels returns the requests to create the channels, after the one for the marker. They begin with the first message
// of the topic: also with those that other clients publish before the channels exist.
func (r *restoring) channels() []api.CreateChannel {
	start := &api.Seek{To: api.SeekStart}
	made := []api.CreateChannel{{Name: Marker, From: start}}
	for _, ch := range r.t.Channels {
		s := r.settings[ch.Name]
		if r.config.Ordered && s.Order == "none" { // the channel had no consumer yet, or is of an earlier release
			s.Order = ""
		}
		made = append(made, api.CreateChannel{Name: ch.Name, Order: s.Order, Filter: s.Filter, Policy: s.Policy, From: start})
	}
	return made
}

// create creates the topic, which delivers nothing yet, and its channels.
func (r *restoring) create(ctx context.Context) error {
	if _, err := r.makeTopic(ctx, r.lenient(), false); err != nil {
		return err
	}
	if err := r.pauseTopic(ctx, true); err != nil {
		return err
	}
	for _, req := range r.channels() {
		_, err := ask(ctx, r.c, func(ctx context.Context) (*api.Channel, error) { return r.c.Client.CreateChannel(ctx, r.as, req) })
		if err != nil {
			return fmt.Errorf("channel %s: %w", req.Name, err)
		}
		if r.settings[req.Name].Paused {
			if _, err := ask(ctx, r.c, func(ctx context.Context) (any, error) { return nil, r.c.Client.PauseChannel(ctx, r.as, req.Name, true) }); err != nil {
				return fmt.Errorf("channel %s: %w", req.Name, err)
			}
		}
	}
	return nil
}

// alter changes the topic.
func (r *restoring) alter(ctx context.Context, patch api.ConfigPatch) error {
	_, err := ask(ctx, r.c, func(ctx context.Context) (*api.Topic, error) { return r.c.Client.AlterTopic(ctx, r.as, patch) })
	return err
}

// enlarge makes room in a topic that is full before all its messages are restored: it may have had more than its limit.
func (r *restoring) enlarge(ctx context.Context) error {
	r.most *= 2
	return r.alter(ctx, api.ConfigPatch{MaxBytes: &r.most})
}

func (r *restoring) pauseTopic(ctx context.Context, paused bool) error {
	_, err := ask(ctx, r.c, func(ctx context.Context) (any, error) { return nil, r.c.Client.PauseTopic(ctx, r.as, paused) })
	return err
}

// open ends the restore: the topic delivers from then on. The marker is deleted while the topic is
// paused, so that without another channel the first one begins with all messages.
func (r *restoring) open(ctx context.Context) error {
	if c := &r.config; c.MaxMessageBytes > 0 || r.most != c.MaxBytes {
		if err := r.alter(ctx, api.ConfigPatch{MaxMessageBytes: &c.MaxMessageBytes, MaxBytes: &c.MaxBytes}); err != nil {
			return err
		}
	}
	if _, err := ask(ctx, r.c, func(ctx context.Context) (any, error) { return r.c.Client.DeleteChannel(ctx, r.as, Marker) }); err != nil {
		return err
	}
	if r.t.Paused {
		return nil
	}
	return r.pauseTopic(ctx, false)
}

// partitionRestore restores one partition.
type partitionRestore struct {
	r     *restoring
	p     *backup.Partition
	batch []api.Message
	seqs  []uint64 // of the batch, in the backup
	bytes int
	runs  []moved
	count int
}

// moved is a run of messages that are consecutive in the backup and in the
// restored topic.
type moved struct{ was, is, n uint64 }

// restore publishes the messages, and moves each channel so that it has the same messages to
// deliver.
func (p *partitionRestore) restore(ctx context.Context) error {
	for i := range p.p.Chunks {
		if err := p.r.d.EachMessage(ctx, &p.p.Chunks[i], func(m *backup.Message) error {
			if m.Seq < p.p.Start || m.Seq >= p.p.End {
				return nil // retention had deleted it, or it was published later
			}
			return p.add(ctx, m)
		}); err != nil {
			return err
		}
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	for _, pos := range p.r.positions[p.p.Partition] {
		if err := p.place(ctx, pos); err != nil {
			return fmt.Errorf("channel %s: %w", pos.Channel, err)
		}
	}
	return nil
}

// add publishes a message, together with others.
func (p *partitionRestore) add(ctx context.Context, m *backup.Message) error {
	now := p.r.c.Now()
	out := api.Message{Body: m.Body, Key: m.Key, KeyBase64: m.KeyBase64, Headers: m.Headers, HeadersBase64: m.HeadersBase64, TraceIDHex: m.TraceID}
	if rest := p.delay(m, now); rest > 0 {
		out.DelayMS = max(1, rest.Milliseconds())
	}
	if m.TTLMS > 0 { // a message that has expired meanwhile expires at once
		out.TTLMS = max(1, m.TTLMS-now.Sub(m.Timestamp).Milliseconds())
	}
	if n := len(p.batch); n > 0 && (n >= publishMessages || p.bytes+out.Size() > publishBytes) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.batch, p.seqs = append(p.batch, out), append(p.seqs, m.Seq)
	p.bytes += out.Size()
	return nil
}

// delay returns how long a message is deferred: until the first channel that has to deliver it may do
// so.
func (p *partitionRestore) delay(m *backup.Message, now time.Time) time.Duration {
	all := p.r.positions[p.p.Partition]
	if len(all) == 0 && m.DeliverAt != nil {
		return m.DeliverAt.Sub(now)
	}
	least := time.Duration(-1)
	for _, pos := range all {
		if !has(pos.Pending, m.Seq) {
			continue
		}
		i, found := slices.BinarySearchFunc(pos.Deferred, m.Seq, func(d backup.Deferred, o uint64) int { return cmp.Compare(d.Seq, o) })
		if !found {
			return 0
		}
		if rest := pos.Deferred[i].Due.Sub(now); least < 0 || rest < least {
			least = max(0, rest)
		}
	}
	return max(0, least)
}

// has reports whether an offset is in ranges.
func has(ranges [][2]uint64, o uint64) bool {
	i, found := slices.BinarySearchFunc(ranges, o, func(r [2]uint64, o uint64) int {
		switch {
		case r[1] <= o:
			return -1
		case r[0] > o:
			return 1
		}
		return 0
	})
	return found && i < len(ranges)
}

// flush publishes the added messages.
func (p *partitionRestore) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	got, err := p.publish(ctx)
	for api.CodeOf(err) == failure.Full {
		if err = p.r.enlarge(ctx); err == nil {
			got, err = p.publish(ctx)
		}
	}
	if err != nil {
		return err
	}
	if got.Count != len(p.batch) || len(got.Parts) > 0 {
		return errors.New("messages of one publish did not get consecutive offsets")
	}
	for i, was := range p.seqs {
		is := got.FirstSeq + uint64(i) //nolint:gosec // not negative
		if n := len(p.runs); n > 0 && p.runs[n-1].was+p.runs[n-1].n == was && p.runs[n-1].is+p.runs[n-1].n == is {
			p.runs[n-1].n++
			continue
		}
		p.runs = append(p.runs, moved{was, is, 1})
	}
	p.count += len(p.batch)
	p.batch, p.seqs, p.bytes = nil, nil, 0
	return nil
}

func (p *partitionRestore) publish(ctx context.Context) (*api.Published, error) {
	req := api.Publish{Messages: p.batch, Partition: &p.p.Partition}
	return ask(ctx, p.r.c, func(ctx context.Context) (*api.Published, error) { return p.r.c.Client.Publish(ctx, p.r.as, req) })
}

// place moves a channel to its first pending message, and finishes the messages after it that it had
// finished.
func (p *partitionRestore) place(ctx context.Context, pos *backup.Position) error {
	floor, finished := plan(p.runs, pos.Pending)
	if floor > 0 {
		if err := p.seek(ctx, pos.Channel, floor); err != nil {
			return err
		}
	}
	var seqs []uint64
	for _, x := range finished {
		for o := x[0]; o < x[1]; o++ {
			seqs = append(seqs, o)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	about, err := read(ctx, p.r.c, func(ctx context.Context) (*api.Topic, error) { return p.r.c.Client.Topic(ctx, p.r.as) })
	if err != nil {
		return err
	}
	return p.finish(ctx, pos.Channel, about.FirstID, seqs)
}

// seek moves a channel in the partition.
func (p *partitionRestore) seek(ctx context.Context, channel string, floor uint64) error {
	to := api.Seek{Offset: &floor, Partition: &p.p.Partition}
	_, err := ask(ctx, p.r.c, func(ctx context.Context) (*api.Channel, error) {
		return p.r.c.Client.SeekChannel(ctx, p.r.as, channel, to)
	})
	return err
}

// finish finishes messages in a channel.
func (p *partitionRestore) finish(ctx context.Context, channel, first string, seqs []uint64) error {
	base, err := idsOf(first)
	if err != nil {
		return err
	}
	return fan.Join(len(seqs), finishTogether, func(i int) error {
		id := base.id(p.p.Partition, seqs[i])
		_, err := ask(ctx, p.r.c, func(ctx context.Context) (*api.FinishedMessage, error) {
			return p.r.c.Client.History.FinishMessage(ctx, p.r.as, channel, id)
		})
		return err
	})
}

// plan returns the current offset of the first pending message, and the messages after it that are not
// pending. Without a pending message, the offset is after all messages. Messages between the runs are not of the
// backup: they were published during the restore, and are pending.
func plan(runs []moved, pending [][2]uint64) (floor uint64, finished [][2]uint64) {
	found := false
	for _, r := range runs {
		found = found || r.is > floor // floor is the end of the run before
		for k := range r.n {
			is := r.is + k
			switch waits := has(pending, r.was+k); {
			case waits && !found:
				found, floor = true, is
			case !waits && found:
				finished = add(finished, is, is+1)
			}
		}
		if !found {
			floor = r.is + r.n
		}
	}
	return floor, finished
}

// channelSettings are the settings of a channel in a backup.
type channelSettings struct {
	Order  string           `json:"order"`
	Paused bool             `json:"paused"`
	Filter string           `json:"filter,omitempty"`
	Policy *api.PolicyPatch `json:"policy,omitempty"` // the channel's own settings
}
