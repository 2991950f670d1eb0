package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/batching"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// longestExported is the maximum length of a line of an exported file: the largest message, in
// base64, with the largest header.
const longestExported = 32 << 20

// importing defines what an import publishes, and how.
type importing struct {
	file   string
	rate   string
	once   bool
	same   bool // keep the partitions
	from   int  // number of the first line
	dry    bool
	batch  int
	second int // messages per second; 0: as fast as possible
}

func newMessageImportCommand(g *globals) *cobra.Command {
	var o importing
	cmd := acting(g, &cobra.Command{
		Use:   "import TOPIC",
		Short: "Publish the messages of a file written by message export",
		Long: `Publish the messages of a file written by brokerctl message export, or of standard input, in order: body, key,
headers, time to live, and the remaining delay. They get new ids and timestamps, and are stored in the partition of
their key or in one that the broker chooses; --same-partitions keeps their partitions.

With --once, each message is published with its old id as dedup id: repeating the command stores only missing
messages, within the topic's dedup window. Without it, messages keep their own dedup ids. A failed import reports how
many lines are stored, and how to continue: --from-line. --dry-run reads the file and publishes nothing.`,
		Example: `  brokerctl message import orders -f orders.ndjson --once --rate 5000/s
  zcat orders.ndjson.gz | brokerctl message import orders-test -f - --dry-run`,
	}, func(cmd *cobra.Command, at target) error { return o.run(cmd, g, at.topic) })
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "publish the messages of `FILE`; - means standard input")
	f.StringVar(&o.rate, "rate", "none", "publish at most `N/s` messages per second; none means no limit")
	f.BoolVar(&o.once, "once", false, "store each message only once, even if the command is repeated")
	f.BoolVar(&o.same, "same-partitions", false, "publish each message to its original partition")
	f.IntVar(&o.from, "from-line", 1, "skip the lines before line `N`")
	f.IntVar(&o.batch, "batch", 500, "maximum messages per request")
	f.BoolVar(&o.dry, "dry-run", false, "read the whole file without publishing anything")
	return cmd
}

// importResult is the result of an import.
type importResult struct {
	Topic    string `json:"topic"`
	File     string `json:"file"`
	Lines    int    `json:"lines"`    // read
	Messages int    `json:"messages"` // published, or in a dry run, to be published
	DryRun   bool   `json:"dry_run"`
}

// pending holds the messages that an import publishes next.
type pending struct {
	messages  []api.Message
	partition int
	bytes     int
	last      int // line
}

func (o *importing) run(cmd *cobra.Command, g *globals, topic string) (err error) {
	if o.second, err = rateOf(o.rate); err != nil {
		return err
	}
	if o.file == "" {
		return usageError("name the file to read with -f; - means standard input")
	}
	if o.from < 1 || o.batch < 1 {
		return usageError("--from-line and --batch must be above 0")
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
	result := importResult{Topic: topic, File: o.file, DryRun: o.dry}
	stored, err := o.publishLines(cmd.Context(), g, from, &result)
	if err != nil {
		if o.dry || result.Messages == 0 {
			return err
		}
		err = partial(cmd.Context(), err, fmt.Sprintf("%s published, up to line %d", plural(result.Messages, "message"), stored))
		if f, ok := errors.AsType[*exitError](err); ok {
			f.answer.Hint = fmt.Sprintf("to continue, repeat the command with --from-line %d", stored+1)
		}
		return err
	}
	return g.show(cmd, output.View{Object: result, Names: []string{topic}, Text: func(p *output.Page) {
		switch {
		case o.dry:
			p.Line("dry run: %s would be published to %s", plural(result.Messages, "message"), topic)
		case !g.quiet:
			p.Line("%s published to %s", plural(result.Messages, "message"), topic)
		}
	}})
}

// publishLines publishes the messages of a file, and returns the last line that is stored.
func (o *importing) publishLines(ctx context.Context, g *globals, from io.Reader, result *importResult) (stored int, err error) {
	var b pending
	flush := func() error {
		if len(b.messages) == 0 {
			return nil
		}
		req := api.Publish{Messages: b.messages}
		if o.same {
			req.Partition = &b.partition
		}
		if !o.dry {
			if _, err := query(ctx, g, func(ctx context.Context) (*api.Published, error) { return g.client.Publish(ctx, result.Topic, req) }); err != nil {
				return fmt.Errorf("lines up to %d: %w", b.last, err)
			}
			if o.second > 0 {
				g.env.pause(ctx, time.Second*time.Duration(len(b.messages))/time.Duration(o.second))
			}
		}
		result.Messages += len(b.messages)
		stored = b.last
		b = pending{}
		return ctx.Err()
	}
	most := o.batch
	if o.second > 0 {
		most = min(most, o.second)
	}
	err = exportedLines(from, longestExported, func(number int, e exported) error {
		result.Lines = number
		if number < o.from {
			return nil
		}
		m, err := o.messageOf(&e, g.env.now())
		if err != nil {
			return badLine(number, err)
		}
		if len(b.messages) >= most || b.bytes+m.Size() > batching.MaxBytes || o.same && e.Partition != b.partition {
			if err := flush(); err != nil {
				return err
			}
		}
		b.messages, b.partition, b.last = append(b.messages, m), e.Partition, number
		b.bytes += m.Size()
		return nil
	})
	if _, bad := errors.AsType[*exitError](err); err == nil || bad {
		if failed := flush(); failed != nil { // the messages before an invalid line are stored
			return stored, failed
		}
	}
	return stored, err
}

// messageOf returns the message to publish for an exported one.
func (o *importing) messageOf(e *exported, now time.Time) (m api.Message, err error) {
	m = api.Message{Body: e.Body, Key: e.Key, Dedup: e.Dedup, KeyBase64: e.KeyBase64, DedupBase64: e.DedupBase64, TTLMS: e.TTLMS, Headers: e.Headers, HeadersBase64: e.HeadersBase64, TraceIDHex: e.TraceID}
	if e.DeliverAt != nil {
		m.DelayMS = max(0, e.DeliverAt.Sub(now).Milliseconds())
	}
	if len(e.Headers) > 0 && !json.Valid(e.Headers) {
		return m, errors.New("its headers are not JSON")
	}
	if o.once {
		if e.ID == "" {
			return m, errors.New("it has no id, which --once needs")
		}
		if _, err := strconv.ParseUint(e.ID, 16, 64); err != nil {
			return m, fmt.Errorf("its id %q is not 16 hexadecimal digits", e.ID)
		}
		m.Dedup, m.DedupBase64 = "import/"+e.ID, nil
	}
	return m, nil
}
