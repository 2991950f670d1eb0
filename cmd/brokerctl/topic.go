package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

func newTopicCommand(g *globals) *cobra.Command {
	return newGroup("topic", "Manage topics",
		newTopicCreateCommand(g), newTopicListCommand(g), newTopicDescribeCommand(g), newTopicAlterCommand(g),
		newTopicAddPartitionsCommand(g), newTopicPauseCommand(g), newTopicResumeCommand(g),
		newTopicEmptyCommand(g), newTopicDeleteCommand(g), newTopicRestoreCommand(g))
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
func topicTable(p *page, topics ...api.Topic) {
	t := newTable("NAME", "PARTITIONS", "REPLICAS", "MIN-ISR", "RETENTION", "SIZE", "ACK MEANS", "STATE",
		"+DEPTH", "+MESSAGES", "+CHANNELS", "+MAX-MESSAGE")
	for _, topic := range topics {
		c := topic.Config
		largest := "node's"
		if c.MaxMessageBytes != 0 {
			largest = units.Size(c.MaxMessageBytes).String()
		}
		t.row(topic.Name, c.Partitions, c.Replicas, c.MinISR, retention(c), words.Size(topic.Bytes), ackMeans(c, topic.Ephemeral), topicState(topic),
			count(topic.Depth), count(topic.MessagesTotal), len(topic.Channels), largest)
	}
	p.table(t)
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
func topicView(t *api.Topic) view {
	return view{object: t, names: []string{t.Name}, text: func(p *page) { topicTable(p, *t) }}
}
