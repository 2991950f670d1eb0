package backups

import (
	"context"
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

// Cluster is a cluster that is backed up, or into which a backup is restored.
type Cluster struct {
	Client  *api.Client
	Timeout time.Duration // of a request
	Now     func() time.Time
}

// ask sends a request. One that is refused for now, as while a leadership moves, is repeated: a backup or a restore
// may take hours.
func ask[T any](ctx context.Context, c *Cluster, f func(context.Context) (T, error)) (T, error) {
	return repeat(ctx, c, f, refusedForNow)
}

// read sends a request that changes nothing. It is repeated also if its outcome is not known, or if no node answers.
func read[T any](ctx context.Context, c *Cluster, f func(context.Context) (T, error)) (T, error) {
	return repeat(ctx, c, f, func(err error) bool { return api.CodeOf(err).Retryable() })
}

func repeat[T any](ctx context.Context, c *Cluster, f func(context.Context) (T, error), again func(error) bool) (v T, err error) {
	for began := time.Now(); ; {
		v, err = askOnce(ctx, c, f)
		if err == nil || time.Since(began) >= leaderTries*leaderPause || !again(err) {
			return v, err
		}
		if ended := pause(ctx); ended != nil {
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
	Manifest  *backup.Manifest
	Copied    int      // messages; the others were in the directory already
	Gone      []string // topics that were deleted meanwhile
	Restoring []string // topics left out because their restore is in progress or was interrupted
}

var (
	errNoTopic   = fate.Refuse("no topic matches")
	errRecreated = fate.Refuse("topic is repeatedly deleted and recreated during the backup")
	errRestoring = fate.Refuse("topic is being restored")
)

// copyTries is how often a topic is copied that was recreated meanwhile.
const copyTries = 5

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
		var was *backup.Topic
		if before != nil && before.Cluster == m.Cluster {
			was = before.Topic(name)
		}
		t, err := c.copy(ctx, w, name, was)
		switch {
		case errors.Is(err, errRestoring):
			made.Restoring = append(made.Restoring, name)
			continue
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

// copy copies a topic, again if it was deleted and recreated meanwhile.
func (c *Cluster) copy(ctx context.Context, w *backup.Work, name string, before *backup.Topic) (*topicCopy, error) {
	for try := 1; ; try++ {
		t := &topicCopy{c: c, w: w, name: name, before: before}
		err := t.copy(ctx)
		recreated := errors.Is(err, errRecreated) || api.CodeOf(err) == failure.NotFound && !c.gone(ctx, name)
		if !recreated || try == copyTries {
			return t, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// gone reports whether a topic was deleted.
func (c *Cluster) gone(ctx context.Context, name string) bool {
	_, err := read(ctx, c, func(ctx context.Context) (*api.Topic, error) { return c.Client.Topic(ctx, name) })
	return api.CodeOf(err) == failure.NotFound
}

// chosen returns the names of the topics to back up. Ephemeral topics are left out.
func (c *Cluster) chosen(ctx context.Context, patterns []string) (names []string, err error) {
	topics, err := read(ctx, c, c.Client.Topics)
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

// Bounds of the wait for the leader of a partition.
const (
	leaderTries = 60
	leaderPause = 500 * time.Millisecond
)

// pause waits for leaderPause.
func pause(ctx context.Context) error {
	timer := time.NewTimer(leaderPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stored returns a message in the form of a backup.
func Stored(m *api.Peeked) *backup.Message {
	s := &backup.Message{
		Seq: m.Seq, ID: m.ID, Timestamp: m.Timestamp, Key: m.Key, Dedup: m.Dedup, KeyBase64: m.KeyBase64, DedupBase64: m.DedupBase64,
		TTLMS: m.TTLMS, DeliverAt: m.DeliverAt, TraceID: m.TraceIDHex, Body: m.Body,
	}
	if string(m.Headers) != "{}" {
		s.Headers = m.Headers
	}
	s.HeadersBase64 = m.HeadersBase64
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
