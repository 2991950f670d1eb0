package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/batching"
	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/topiclog"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
)

// exported is a line of an exported file: a message as stored in its topic.
type exported struct {
	Partition int `json:"partition"`
	backup.Message
}

// exporting defines what an export writes, and where.
type exporting struct {
	partition      int
	from, to, file string
}

func newMessageExportCommand(g *globals) *cobra.Command {
	var o exporting
	cmd := acting(g, &cobra.Command{
		Use:   "export TOPIC",
		Short: "Write messages to a file, one JSON object per line",
		Long: `Write the messages of a topic, or a range of them, to a file or to standard output as one JSON object per line,
partition by partition, without consuming them. Each partition is exported up to its end at the start of the command. Copies
that are in the log for one channel alone (requeued for long, redriven) are left out if their originals are exported.
Messages that retention deletes meanwhile are missing; their number is reported. brokerctl message import reads the file.`,
		Example: `  brokerctl message export orders -f orders.ndjson
  brokerctl message export orders --from -2h --to 2026-11-21T06:00:00Z -f - | gzip > orders.ndjson.gz`,
	}, func(cmd *cobra.Command, at target) error { return o.run(cmd, g, at.topic) })
	f := cmd.Flags()
	f.IntVar(&o.partition, "partition", 0, "only this partition (default: all)")
	f.StringVar(&o.from, "from", "start", "first message to write, as a `POSITION`: start, end, a time, an age such as -2h, or an offset")
	f.StringVar(&o.to, "to", "end", "write the messages before this `POSITION`")
	f.StringVarP(&o.file, "file", "f", "", "write to `FILE`, which must not exist; - means standard output")
	return cmd
}

// exportResult is the result of an export.
type exportResult struct {
	Topic    string `json:"topic"`
	File     string `json:"file"`
	Messages uint64 `json:"messages"`
	Gone     uint64 `json:"gone"` // deleted by retention while the export ran
}

func (o *exporting) run(cmd *cobra.Command, g *globals, topic string) (err error) {
	if o.file == "" {
		return usageError("name the file to write with -f; - means standard output")
	}
	from, err := parseSeek("--from", o.from, g.env.now())
	if err != nil {
		return err
	}
	to, err := parseSeek("--to", o.to, g.env.now())
	if err != nil {
		return err
	}
	if o.partition < 0 {
		return usageError("--partition must not be below 0")
	}
	t, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if err != nil {
		return err
	}
	only := cmd.Flags().Changed("partition")
	if only && o.partition >= len(t.Partitions) {
		return usageError("topic %s has partitions 0 to %d, not %d", topic, len(t.Partitions)-1, o.partition)
	}
	out, done, err := o.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(err != nil)) }()
	result := exportResult{Topic: topic, File: o.file}
	var read topiclog.Originals
	for _, p := range t.Partitions {
		if only && p.Partition != o.partition {
			continue
		}
		r := topiclog.Range{Log: g.log(topic), Partition: p.Partition, Start: p.LogStart, End: p.CommittedEnd}
		first, err := r.Resolve(cmd.Context(), from)
		if err == nil {
			r.Start = first
			r.End, err = r.Resolve(cmd.Context(), to)
		}
		if err == nil {
			err = read.Each(cmd.Context(), &r, &result.Gone, func(m *api.Peeked) error {
				result.Messages++
				return output.WriteJSON(out, exported{m.Partition, *backups.Stored(m)})
			})
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return partial(cmd.Context(), err, plural(result.Messages, "message")+" exported")
		}
	}
	return o.report(cmd, g, &result)
}

// report prints the result, to standard error if the messages were written to standard output.
func (o *exporting) report(cmd *cobra.Command, g *globals, r *exportResult) error {
	text := plural(r.Messages, "message") + " of " + r.Topic + " exported"
	if o.file != "-" {
		text += " to " + r.File
	}
	if r.Gone > 0 {
		text += "; " + plural(r.Gone, "message") + " were deleted by retention during the export and are not included"
	}
	if o.file == "-" {
		if !g.quiet {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), text)
		}
		return nil
	}
	return g.show(cmd, output.View{Object: r, Names: []string{r.File}, Text: func(p *output.Page) {
		if !g.quiet {
			p.Line("%s", text)
		}
	}})
}

// open returns the output for messages, and a function that closes it. An incomplete file is kept.
func (o *exporting) open(cmd *cobra.Command) (*bufio.Writer, func(failed bool) error, error) {
	if o.file == "-" {
		w := bufio.NewWriter(cmd.OutOrStdout())
		return w, func(bool) error { return w.Flush() }, nil
	}
	f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return nil, nil, usageError("cannot create %s: %w", o.file, err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return w, func(failed bool) error {
		err := w.Flush()
		if err == nil && !failed {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	}, nil
}

// readExported parses one line of an exported file.
func readExported(line []byte) (e exported, err error) {
	if err := jsonbytes.Unmarshal(line, &e); err != nil {
		return e, err
	}
	if len(e.Body) == 0 {
		return e, errors.New("it has no body")
	}
	return e, nil
}

var errTruncated = errors.New("the file ends within the line: it was truncated")

// exportedLines calls f with the messages of an exported file and their line numbers, from 1.
// Empty lines are skipped. It holds one line in memory, of at most longest bytes.
func exportedLines(from io.Reader, longest int, f func(number int, e exported) error) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for number := 1; ; number++ {
		line, whole, err := batching.ReadLine(r, longest)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if len(line) == 0 && !whole {
			return nil
		}
		if len(line) == 0 {
			continue
		}
		e, err := readExported(line)
		if err != nil && !whole {
			err = errTruncated
		}
		if err != nil {
			return badLine(number, err)
		}
		if err := f(number, e); err != nil {
			return err
		}
	}
}

func badLine(number int, err error) error {
	e := usageError("line %d is not an exported message: %w", number, err)
	e.answer.Hint = "a line is an object with a body in base64, as brokerctl message export writes it"
	return e
}
