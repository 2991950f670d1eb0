package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/topicfile"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

func newTopicCommand(g *globals) *cobra.Command {
	cmd := newGroup("topic", "Manage topics",
		newTopicCreateCommand(g), newTopicListCommand(g), newTopicDescribeCommand(g), newTopicAlterCommand(g),
		newTopicAddPartitionsCommand(g), newTopicPauseCommand(g), newTopicResumeCommand(g),
		newTopicEmptyCommand(g), newTopicDeleteCommand(g), newTopicRestoreCommand(g))
	cmd.AddCommand(topicfile.Commands(g.shell())...)
	return cmd
}

// configOptions are the settings that a topic can be given at any time. Settings without a flag on
// the command line stay nil in the patch.
type configOptions struct {
	minISR         int
	sync           string
	syncInterval   time.Duration
	retention      time.Duration
	retentionBytes units.Size
	maxMessage     units.Size
	dedupWindow    time.Duration
	keyFrom        string
	ttl            time.Duration
	maxBytes       units.Size
	onFull         string
	trash          time.Duration
	trace          string
	channels       policyOptions
}

func (o *configOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.minISR, "min-isr", 0, "minimum in-sync replicas required to publish")
	f.StringVar(&o.sync, "sync", "", "sync `POLICY`: always syncs before acknowledging, interval syncs every --sync-interval,\nN syncs after at most N messages")
	durationVar(f, &o.syncInterval, "sync-interval", "maximum time an acknowledged message stays unsynced, unless --sync always")
	durationVar(f, &o.retention, "retention", "retention time of finished messages; 0 deletes them at once")
	sizeVar(f, &o.retentionBytes, "retention-bytes", "retention `SIZE` of a partition, such as 50GiB, finished or not; 0 means no limit")
	sizeVar(f, &o.maxMessage, "max-message-bytes", "maximum message `SIZE`, at most the nodes' max-msg-size (1MiB by default); 0 means that limit")
	durationVar(f, &o.dedupWindow, "dedup-window", "store a message with a dedup id once within this time, at most 24h; 10m once ids are used")
	f.StringVar(&o.keyFrom, "key-from", "", "take the key of a message from its body by a `RULE`: json:/POINTER or prefix:C; none if empty")
	durationVar(f, &o.ttl, "ttl", "expire messages after this time unless they name another; 0 means never")
	sizeVar(f, &o.maxBytes, "max-bytes", "maximum `SIZE` of the topic, each partition an equal share; 0 means no limit")
	f.StringVar(&o.onFull, "on-full", "", "at --max-bytes, reject publishes or drop-oldest messages, finished or not")
	durationVar(f, &o.trash, "retention-trash", "how long the topic can be restored after its deletion, 24h by default, at most 30d; 0 deletes it at once")
	f.StringVar(&o.trace, "trace", "", "record what happens to messages: `RULE` is off, on, 1/N or id:ID; add channel:NAME to trace one channel")
	o.channels.addFlags(f, "channel-")
}

// patch returns the settings that were given.
func (o *configOptions) patch(f *pflag.FlagSet) (api.ConfigPatch, error) {
	var p api.ConfigPatch
	setIf(f, "min-isr", &p.MinISR, o.minISR)
	setIf(f, "sync-interval", &p.SyncInterval, api.Duration(o.syncInterval))
	setIf(f, "retention", &p.Retention, api.Duration(o.retention))
	setIf(f, "retention-bytes", &p.RetentionBytes, int64(o.retentionBytes))
	setIf(f, "max-message-bytes", &p.MaxMessageBytes, int(o.maxMessage))
	setIf(f, "dedup-window", &p.DedupWindow, api.Duration(o.dedupWindow))
	setIf(f, "key-from", &p.KeyFrom, o.keyFrom)
	setIf(f, "ttl", &p.TTL, api.Duration(o.ttl))
	setIf(f, "max-bytes", &p.MaxBytes, int64(o.maxBytes))
	setIf(f, "on-full", &p.OnFull, o.onFull)
	setIf(f, "retention-trash", &p.RetentionTrash, api.Duration(o.trash))
	setIf(f, "trace", &p.Trace, o.trace)
	if f.Changed("sync") {
		sync, err := api.ParseSync(o.sync)
		if err != nil {
			return p, usageError("--sync: %w", err)
		}
		p.Sync = &sync
	}
	var err error
	p.ChannelPolicy, err = o.channels.patch(f)
	return p, err
}

// setIf sets to to the address of v if the flag was given.
func setIf[T any](f *pflag.FlagSet, flag string, to **T, v T) {
	if f.Changed(flag) {
		*to = &v
	}
}

// topicTable shows topics, one per line.
func topicTable(p *output.Page, topics ...api.Topic) {
	t := output.NewTable("NAME", "PARTITIONS", "REPLICAS", "MIN-ISR", "RETENTION", "SIZE", "ACK MEANS", "STATE",
		"+DEPTH", "+MESSAGES", "+CHANNELS", "+MAX-MESSAGE")
	for _, topic := range topics {
		c := topic.Config
		largest := "node's"
		if c.MaxMessageBytes != 0 {
			largest = units.Size(c.MaxMessageBytes).String()
		}
		t.Row(topic.Name, c.Partitions, c.Replicas, c.MinISR, retention(c), words.Size(topic.Bytes), ackMeans(c, topic.Ephemeral), topicState(topic),
			count(topic.Depth), count(topic.MessagesTotal), len(topic.Channels), largest)
	}
	p.Table(t)
}

// retention formats the retention age and size of a log: 72h/50GiB.
func retention(c api.Config) string {
	text := "finished"
	if c.Retention > 0 {
		text = units.FormatDuration(time.Duration(c.Retention))
	}
	if c.RetentionBytes > 0 {
		text += "/" + units.Size(c.RetentionBytes).String()
	}
	return text
}

// ackMeans formats what an acknowledgement guarantees.
func ackMeans(c api.Config, ephemeral bool) string {
	where := plural(max(c.MinISR, 1), "replica")
	if c.MinISR < c.Replicas {
		where = fmt.Sprintf("%d+ replicas", max(c.MinISR, 1))
	}
	switch {
	case ephemeral:
		return where + ", in memory"
	case c.Sync == api.SyncAlways:
		return where + ", on disk"
	case c.Sync == api.SyncInterval:
		return where + ", on disk in " + time.Duration(c.SyncInterval).String()
	case c.SyncInterval > 0:
		return fmt.Sprintf("%s, on disk in %s or %s", where, time.Duration(c.SyncInterval), plural(int(c.Sync), "message"))
	}
	return where + ", on disk in " + plural(int(c.Sync), "message")
}

func topicState(t api.Topic) string {
	state := "active"
	if t.Paused {
		state = "paused"
	}
	if t.Config.Ordered {
		state += ",ordered"
	}
	if t.Config.Ext {
		state += ",ext"
	}
	if t.Ephemeral {
		state += ",ephemeral"
	}
	return state
}

// topicView shows one topic as a line of a list.
func topicView(t *api.Topic) output.View {
	return output.View{Object: t, Names: []string{t.Name}, Text: func(p *output.Page) { topicTable(p, *t) }}
}

func newTopicListCommand(g *globals) *cobra.Command {
	deleted := false
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the topics",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if deleted {
				return answer(cmd, g, g.client.Trash.Topics, deletedView)
			}
			return answer(cmd, g, g.client.Topics, topicsView)
		},
	}
	cmd.Flags().BoolVar(&deleted, "deleted", false, "list deleted topics that can be restored, most recently deleted first")
	return cmd
}

func topicsView(topics []api.Topic) output.View {
	missing := words.UnionOf(topics, func(t api.Topic) []string { return t.MissingNodes })
	return output.View{
		Object: api.TopicList{Topics: topics, MissingNodes: missing},
		Lines:  listing.Lines(topics),
		Names:  listing.Names(topics, func(t api.Topic) string { return t.Name }),
		Text: func(p *output.Page) {
			topicTable(p, topics...)
			missingNote(p, missing)
		},
	}
}

func newTopicDescribeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "describe TOPIC",
		Aliases: []string{"info"},
		Short:   "Show a topic, its partitions and its channels",
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, at.topic) }, topicDetails)
	})
}

// topicDetails shows a topic with its partitions and channels.
func topicDetails(t *api.Topic) output.View {
	return output.View{Object: t, Names: []string{t.Name}, Text: func(p *output.Page) {
		topicTable(p, *t)
		p.Line("")
		partitionTable(p, t.Partitions)
		if len(t.Channels) > 0 {
			p.Line("")
			channelTable(p, t.Channels)
		}
		missingNote(p, t.MissingNodes)
	}}
}

// partitionTable shows the partitions of one topic.
func partitionTable(p *output.Page, partitions []api.Partition) {
	t := output.NewTable("P", "LEADER", "REPLICAS", "ISR", "EPOCH", "FIRST", "COMMITTED", "END", "SIZE")
	for _, q := range partitions {
		t.Row(q.Partition, leader(q), list(q.Replicas), list(q.ISR), q.Epoch,
			count(q.LogStart), count(q.CommittedEnd), count(q.LogEnd), words.Size(q.Bytes))
	}
	p.Table(t)
}

// leader marks the preferred leader with a star.
func leader(q api.Partition) string {
	switch {
	case q.Leader == "":
		return "none"
	case len(q.Replicas) > 1 && q.Replicas[0] == q.Leader:
		return q.Leader + "*"
	}
	return q.Leader
}

func newTopicPauseCommand(g *globals) *cobra.Command {
	return g.changing(&cobra.Command{
		Use:   "pause TOPIC",
		Short: "Stop delivery from a topic to its channels",
	}, "paused", func(ctx context.Context, at *target) error { return g.client.PauseTopic(ctx, at.topic, true) })
}

func newTopicResumeCommand(g *globals) *cobra.Command {
	return g.changing(&cobra.Command{
		Use:     "resume TOPIC",
		Aliases: []string{"unpause"},
		Short:   "Resume delivery from a topic to its channels",
	}, "resumed", func(ctx context.Context, at *target) error { return g.client.PauseTopic(ctx, at.topic, false) })
}

func newTopicEmptyCommand(g *globals) *cobra.Command {
	return g.confirming(func(at target) string { return fmt.Sprintf("emptying topic %s cannot be undone", at) }, g.changing(&cobra.Command{
		Use:   "empty TOPIC",
		Short: "Delete the messages of a topic that have not reached any channel",
	}, "emptied", func(ctx context.Context, at *target) error { return g.client.EmptyTopic(ctx, at.topic) }))
}

// deletion defines which topic is deleted, and whether for good.
type deletion struct {
	purge       bool
	dry         *bool
	incarnation uint64
}

func newTopicDeleteCommand(g *globals) *cobra.Command {
	var d deletion
	cmd := acting(g, &cobra.Command{
		Use:     "delete TOPIC",
		Aliases: []string{"rm"},
		Short:   "Delete a topic, its messages and its channels",
		Long: `Delete a topic, its messages and its channels. For 24 hours, or the topic's --retention-trash, it can be
restored with topic restore; until then its messages occupy disk space. --purge deletes it for good at once,
with --incarnation a topic in the trash.`,
	}, func(cmd *cobra.Command, at target) error { return d.run(cmd, g, at) })
	f := cmd.Flags()
	f.BoolVar(&d.purge, "purge", false, "delete for good; cannot be undone")
	f.Uint64Var(&d.incarnation, "incarnation", 0, "with --purge: delete the topic of this incarnation, which may already be in the trash")
	d.dry = addTry(cmd)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "incarnation")
	return cmd
}

func (d *deletion) run(cmd *cobra.Command, g *globals, at target) error {
	name := at.topic
	if d.incarnation != 0 && !d.purge {
		return usageError("--incarnation requires --purge")
	}
	warning, action := "deleting topic "+name+" for good cannot be undone", "purged"
	if !d.purge {
		action = "deleted"
	}
	if !d.purge && (*d.dry || !g.yes) {
		t, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, name) })
		if err != nil {
			return err
		}
		warning = deletionWarning(t)
	}
	if *d.dry {
		return g.try(cmd, at, warning)
	}
	if err := confirmAfter(cmd, g, warning, name); err != nil {
		return err
	}
	return g.change(cmd, &at, action, func(ctx context.Context) error {
		if d.purge {
			return g.client.Trash.Purge(ctx, name, d.incarnation)
		}
		return g.client.DeleteTopic(ctx, name)
	})
}

// deletionWarning says whether a topic can be restored once it is deleted.
func deletionWarning(t *api.Topic) string {
	switch {
	case t.Ephemeral:
		return "deleting topic " + t.Name + " cannot be undone: ephemeral topics are not kept"
	case t.Config.RetentionTrash == 0:
		return "deleting topic " + t.Name + " cannot be undone: its retention-trash is 0"
	}
	return fmt.Sprintf("deleting topic %s can be undone for %s only (brokerctl topic restore %[1]s)", t.Name, units.FormatDuration(time.Duration(t.Config.RetentionTrash)))
}

func newTopicRestoreCommand(g *globals) *cobra.Command {
	var which api.RestoreTopic
	var replace bool
	cmd := acting(g, &cobra.Command{
		Use:   "restore TOPIC",
		Short: "Restore a deleted topic with its messages and channels",
		Long: `Restore a deleted topic with its messages, its channels and their positions. A deleted topic is kept
for 24 hours (--retention-trash), unless a disk is nearly full. topic list --deleted lists the topics that can
be restored. If publishers have created a topic with the name since, --replace with the --incarnation of the topic
to restore deletes the new topic in the same step; it can be restored likewise.`,
		Example: `  brokerctl topic list --deleted -o wide
  brokerctl topic restore orders
  brokerctl topic restore orders --incarnation 12 --replace`,
	}, func(cmd *cobra.Command, at target) error {
		if replace && which.Incarnation == 0 {
			return usageError("--replace needs --incarnation: topic list --deleted -o wide shows it")
		}
		if replace { // only this one, and not one created meanwhile
			var err error
			if which.Replaces, err = query(cmd.Context(), g, func(ctx context.Context) (uint64, error) { return g.client.Trash.Holder(ctx, at.topic) }); err != nil {
				return err
			}
		}
		ask := func(ctx context.Context) (*api.Topic, error) { return g.client.Trash.Restore(ctx, at.topic, which) }
		return answer(cmd, g, ask, func(t *api.Topic) output.View { return withDryRun(topicView(t), which.DryRun) })
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().Uint64Var(&which.Incarnation, "incarnation", 0, "restore this one of several deleted topics with the same name")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the topic that has the name now; requires --incarnation")
	planVar(cmd, &which.DryRun)
	return cmd
}

func deletedView(all []api.DeletedTopic) output.View {
	t := output.NewTable("NAME", "DELETED", "KEPT UNTIL", "PARTITIONS", "REPLICAS", "CHANNELS", "+INCARNATION", "+NODES")
	return output.List(api.DeletedTopics{Deleted: all}, all, func(t api.DeletedTopic) string { return t.Name }, t, func(d api.DeletedTopic) []any {
		return []any{
			d.Name, output.Time(d.DeletedAt), output.Time(d.KeptUntil), d.Partitions, d.Replicas, len(d.Channels),
			strconv.FormatUint(d.Incarnation, 10), strings.Join(d.Nodes, ","),
		}
	})
}
