package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/batching"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

type pubOptions struct {
	partition int
	key       string
	dedup     string
	ttl       time.Duration
	sent      int // messages so far, for numbering dedup ids
	delay     time.Duration
	file      string
	batch     int
	count     int // how often each message is published; 0: once, and it is no template
}

func newMessagePubCommand(g *globals) *cobra.Command {
	var o pubOptions
	cmd := &cobra.Command{
		Use:   "pub TOPIC [MESSAGE...]",
		Short: "Publish messages",
		Long: `Publish the arguments, or the lines of a file, one message each; empty lines are skipped.
Lines are published in batches as they arrive; the messages of a batch that go to one partition are
stored as a whole or not at all. With --count, each argument is published so many times; {{.N}} in it is the
number of the time, from 1, and {{.Now}} the current time. With --dedup, repeating the command stores only missing messages.
If a batch fails, earlier batches remain published and the exit code is 7.`,
		Example: `  brokerctl message pub orders '{"id":1}' '{"id":2}'
  tail -f access.log | brokerctl message pub clicks -f -
  brokerctl message pub orders --dedup import-7 -f orders.ndjson
  brokerctl message pub reminders --delay 10m 'stand up'
  brokerctl message pub load --count 1000 '{"n":{{.N}},"at":"{{.Now}}"}'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if _, err := topicForm.parse(cmd, args[:min(1, len(args))]); err != nil {
				return err
			}
			return o.validate(args[1:], cmd.Flags().Changed("count"))
		},
		ValidArgsFunction: topicForm.complete(g),
		RunE:              func(cmd *cobra.Command, args []string) error { return publish(cmd, g, o, args[0], args[1:]) },
	}
	f := cmd.Flags()
	f.IntVar(&o.partition, "partition", -1, "publish to this partition (default: chosen by the broker)")
	f.StringVar(&o.key, "key", "", "publish with this `KEY`, to its partition")
	f.StringVar(&o.dedup, "dedup", "", "publish once within the topic's dedup window: the dedup `ID` of a single message;\nof several, message N (from 0) has ID/N")
	durationVar(f, &o.ttl, "ttl", "expire the messages after this time (default: the topic's)")
	durationVar(f, &o.delay, "delay", "defer delivery by this duration")
	f.StringVarP(&o.file, "file", "f", "", "publish the lines of `FILE`; - means standard input")
	f.IntVar(&o.batch, "batch", 500, "maximum lines per batch")
	f.IntVar(&o.count, "count", 0, "publish each argument `N` times, as a template with {{.N}} and {{.Now}}")
	return cmd
}

func (o *pubOptions) validate(messages []string, counted bool) error {
	switch {
	case o.partition < -1:
		return usageError("--partition must not be below 0")
	case o.batch < 1:
		return usageError("--batch must be above 0")
	case o.file == "" && len(messages) == 0:
		return usageError("no message: give it after the topic, or name a file with -f")
	case o.file != "" && len(messages) > 0:
		return usageError("give messages on the command line or with --file, not both")
	}
	if counted && (o.count < 1 || o.file != "") {
		return usageError("--count must be above 0, and applies to messages on the command line")
	}
	if slices.Contains(messages, "") {
		return usageError("a message must not be empty")
	}
	return nil
}

// published is the result of pub.
type published struct {
	Topic      string              `json:"topic"`
	Messages   int                 `json:"messages"`
	Partitions []api.PublishedPart `json:"partitions"` // in the order of their first message
	IDs        []string            `json:"ids"`        // in the order of the messages
}

// add counts a batch.
func (r *published) add(b api.Published) {
	r.Messages += b.Count
	r.IDs = append(r.IDs, b.IDs...)
	parts := b.Parts
	if parts == nil {
		parts = []api.PublishedPart{{Partition: b.Partition, FirstSeq: b.FirstSeq, Count: b.Count}}
	}
	for _, p := range parts {
		i := slices.IndexFunc(r.Partitions, func(q api.PublishedPart) bool { return q.Partition == p.Partition })
		if i < 0 {
			r.Partitions = append(r.Partitions, p)
		} else {
			r.Partitions[i].Count += p.Count
		}
	}
}

// dedupOf returns the dedup id of the next message of several; 0: an unknown number of lines.
func (o *pubOptions) dedupOf(messages int) string {
	o.sent++
	if o.dedup == "" || messages == 1 {
		return o.dedup
	}
	return fmt.Sprintf("%s/%d", o.dedup, o.sent-1)
}

func publish(cmd *cobra.Command, g *globals, o pubOptions, topic string, messages []string) error {
	result := published{Topic: topic, Partitions: []api.PublishedPart{}, IDs: []string{}}
	send := func(bodies [][]byte) error {
		req := api.Publish{Key: o.key}
		if o.partition >= 0 {
			req.Partition = &o.partition
		}
		for _, b := range bodies {
			req.Messages = append(req.Messages, api.Message{
				Body: b, Delay: api.Duration(o.delay), TTL: api.Duration(o.ttl), Dedup: o.dedupOf(max(1, o.count) * len(messages)),
			})
		}
		answer, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Published, error) { return g.client.Publish(ctx, topic, req) })
		if err == nil {
			result.add(*answer)
		}
		return err
	}
	err := publishAll(cmd, g, &o, messages, send)
	if err != nil && result.Messages == 0 {
		return err
	}
	shown := g.show(cmd, output.View{
		Object: result,
		Names:  result.IDs,
		Text: func(p *output.Page) {
			for _, q := range result.Partitions {
				if !g.quiet {
					p.Line("published %s to %s/%d from offset %d", plural(q.Count, "message"), topic, q.Partition, q.FirstSeq)
				}
			}
		},
	})
	if err != nil {
		return partial(cmd.Context(), err, plural(result.Messages, "message")+" published")
	}
	return shown
}

// partial reports that part of the work was done before err.
func partial(ctx context.Context, err error, did string) error {
	f := *diagnose(ctx, err)
	f.answer.Message, f.answer.Fate = did+", then: "+f.answer.Message, "" // a fate is that of the rest
	if f.exit != failure.ExitInterrupted {
		f.exit = failure.ExitPartial
	}
	return &f
}

// publishAll publishes the arguments, or the lines of the file, in batches.
func publishAll(cmd *cobra.Command, g *globals, o *pubOptions, messages []string, send func([][]byte) error) error {
	limits := batching.Limits{Messages: o.batch, Bytes: batching.MaxBytes, Linger: batching.Linger}
	if o.file == "" {
		var b batching.Batch
		for m, err := range batching.Bodies(messages, o.count, g.env.now) {
			if err != nil {
				return usageError("%w", err)
			}
			if b.Exceeds(limits, len(m)) {
				if err := cmp.Or(send(b.Take()), cmd.Context().Err()); err != nil {
					return err
				}
			}
			b.Add(m)
		}
		return send(b.Take())
	}
	from := cmd.InOrStdin()
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return usageError("%w", err)
		}
		defer func() { _ = file.Close() }() // the file was only read
		from = file
	}
	return batching.SendLines(cmd.Context(), from, limits, send)
}
