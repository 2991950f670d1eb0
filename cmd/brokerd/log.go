package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// logOutputs are the output formats of the log commands.
func logOutputs() []string { return []string{"table", "json", "ndjson"} }

func (p *program) logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "log", Short: "Inspect a partition log on disk",
		Long: "Inspect a partition log on disk. DIR is the directory with its .log files.\nNothing is changed. A log that is being written may show a torn tail.",
	}
	cmd.AddCommand(p.logDumpCommand(), p.logVerifyCommand())
	return cmd
}

// reporting gives a command a flag for the format of its output, and runs it with a format that exists.
func reporting(cmd *cobra.Command, run func(w io.Writer, args []string, output string) error) *cobra.Command {
	names := strings.Join(logOutputs(), ", ")
	output := cmd.Flags().StringP("output", "o", "table", names+": the output format")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(logOutputs(), *output) {
			return finish(exitWith(exitUsage, fmt.Errorf("output %q must be one of %s", *output, names)))
		}
		return finish(run(cmd.OutOrStdout(), args, *output))
	}
	return cmd
}

// checkLog refuses directories that are not logs before anything is printed.
func checkLog(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(names, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".log") }) {
		return exitWith(exitFailed, fmt.Errorf("%s contains no log: name the directory of a replica, which has .log files", dir))
	}
	return nil
}

// dumpOptions are the options of `log dump`.
type dumpOptions struct {
	output   string
	records  bool
	from, to uint64
}

func (p *program) logDumpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dump DIR", Short: "Print every batch of a log", Args: cobra.ExactArgs(1),
		Long: "Print every batch of a log. Instead of DIR, a kept redo journal (redo/journal-*.kept-*) may\nbe given: then the batches that it holds are printed, of all logs, with positions in\ntheir files.",
	}
	var o dumpOptions
	cmd.Flags().BoolVar(&o.records, "records", false, "print every record in hexadecimal")
	cmd.Flags().Uint64Var(&o.from, "from", 0, "skip batches that end at or before this offset")
	cmd.Flags().Uint64Var(&o.to, "to", uint64(seq.MaxOffset), "skip batches that start at or after this offset")
	return reporting(cmd, func(w io.Writer, args []string, output string) error {
		o.output = output
		if isKeptJournal(args[0]) {
			return dumpKept(w, args[0], o)
		}
		return dumpLog(w, args[0], o)
	})
}

// batchLine is a batch in the output of `log dump`.
type batchLine struct {
	Log       string       `json:"log,omitempty"` // of a kept redo journal: the file for which it holds the batch
	First     seq.Offset   `json:"first"`
	End       seq.Offset   `json:"end"`
	Epoch     seq.Epoch    `json:"epoch"`
	Time      time.Time    `json:"time"`
	Count     int          `json:"count"`
	Bytes     int          `json:"bytes"`
	Position  int64        `json:"position"`
	Checksum  string       `json:"checksum"`
	RecordSet []recordLine `json:"records,omitempty"`
}

type recordLine struct {
	Offset seq.Offset `json:"offset"`
	Bytes  int        `json:"bytes"`
	Hex    string     `json:"hex"`
}

func lineOf(b commitlog.Batch, records bool) batchLine {
	line := batchLine{
		First: b.First(), End: b.End(), Epoch: b.Epoch(), Time: time.Unix(0, b.Timestamp()).UTC(), Count: b.Count(),
		Bytes: b.Size(), Position: b.Position(), Checksum: fmt.Sprintf("%08x", b.Checksum()),
	}
	if records {
		for all := b.Records(b.First()); ; {
			offset, payload, ok := all.Next()
			if !ok {
				break
			}
			line.RecordSet = append(line.RecordSet, recordLine{offset, len(payload), hex.EncodeToString(payload)})
		}
	}
	return line
}

// errEnough ends a scan that has read everything requested.
var errEnough = errors.New("enough")

func dumpLog(w io.Writer, dir string, o dumpOptions) error {
	if err := checkLog(dir); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	printer := newBatchPrinter(out, o.output)
	_, err := commitlog.Inspect(vfs.OS{}, dir, func(b commitlog.Batch) error {
		if uint64(b.End()) <= o.from {
			return nil
		}
		if uint64(b.First()) >= o.to {
			return errEnough
		}
		return printer.print(lineOf(b, o.records))
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, printer.end(), out.Flush())
}

// batchPrinter writes batches in one of the formats.
type batchPrinter struct {
	out   io.Writer
	form  string
	count int
	log   string // of the last batch
}

const batchFormat = "%-12v %-12v %-6v %-30v %8v %10v %12v %-8v\n"

func newBatchPrinter(out io.Writer, form string) *batchPrinter {
	if form == "table" {
		fmt.Fprintf(out, batchFormat, "FIRST", "END", "EPOCH", "TIME", "RECORDS", "BYTES", "POSITION", "CHECKSUM")
	}
	return &batchPrinter{out: out, form: form}
}

func (p *batchPrinter) print(line batchLine) error {
	p.count++
	if p.form == "table" {
		if line.Log != p.log {
			p.log = line.Log
			fmt.Fprintf(p.out, "%s:\n", p.log)
		}
		fmt.Fprintf(p.out, batchFormat, line.First, line.End, line.Epoch, line.Time.Format(time.RFC3339Nano),
			line.Count, line.Bytes, line.Position, line.Checksum)
		for _, r := range line.RecordSet {
			fmt.Fprintf(p.out, "  %-10d %8d  %s\n", r.Offset, r.Bytes, r.Hex)
		}
		return nil
	}
	encoded, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode batch: %w", err)
	}
	if p.form == "json" {
		lead := ",\n"
		if p.count == 1 {
			lead = "[\n"
		}
		_, err = fmt.Fprintf(p.out, "%s%s", lead, encoded)
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s\n", encoded)
	return err
}

func (p *batchPrinter) end() error {
	if p.form != "json" {
		return nil
	}
	text := "\n]\n"
	if p.count == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(p.out, text)
	return err
}

func (p *program) logVerifyCommand() *cobra.Command {
	return reporting(&cobra.Command{
		Use: "verify DIR...", Short: "Verify partition logs", Args: cobra.MinimumNArgs(1),
		Long: "Verify every byte of partition logs. The exit code is 1 if durable data cannot\nbe read. A torn tail is not corruption: the next start truncates it.",
	}, verifyLogs)
}

// verified is the JSON output of `log verify` for a log.
type verified struct {
	Directory string `json:"directory"`
	OK        bool   `json:"ok"`

	Start          seq.Offset             `json:"log_start"`
	CommittedEnd   seq.Offset             `json:"committed_end"`
	End            seq.Offset             `json:"log_end"`
	Segments       int                    `json:"segments"`
	Batches        int64                  `json:"batches"`
	Records        int64                  `json:"records"`
	Bytes          int64                  `json:"bytes"` // of the batches
	Epochs         []commitlog.EpochStart `json:"epochs"`
	Damaged        []commitlog.Damage     `json:"damaged"`
	Torn           []commitlog.Cut        `json:"torn"`
	CheckpointLost bool                   `json:"checkpoint_lost"`
}

// verifyLog reads every byte of a log.
func verifyLog(dir string) (verified, error) {
	v := verified{Directory: dir}
	e, err := commitlog.Inspect(vfs.OS{}, dir, func(b commitlog.Batch) error {
		v.Batches++
		v.Records += int64(b.Count())
		v.Bytes += int64(b.Size())
		return nil
	})
	v.OK, v.CheckpointLost = e.OK(), e.CheckpointLost
	v.Start, v.CommittedEnd, v.End, v.Segments = e.Start, e.CommittedEnd, e.End, e.Segments
	v.Epochs, v.Damaged, v.Torn = append([]commitlog.EpochStart{}, e.Epochs...), append([]commitlog.Damage{}, e.Damaged...), append([]commitlog.Cut{}, e.Torn...) // not null
	return v, err
}

func verifyLogs(w io.Writer, dirs []string, output string) error {
	all := []verified{}
	for _, dir := range dirs {
		if err := checkLog(dir); err != nil {
			return err
		}
		v, err := verifyLog(dir)
		if err != nil {
			return fmt.Errorf("verify %s: %w", dir, err)
		}
		all = append(all, v)
	}
	if err := printVerified(w, all, output); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(v verified) bool { return !v.OK }) {
		return silent{exitFailed}
	}
	return nil
}

// encodeAll writes a report in JSON: as one list, or with ndjson one entry a line.
func encodeAll[T any](w io.Writer, all []T, output string) error {
	encoder := json.NewEncoder(w)
	if output == "json" {
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	for _, x := range all {
		if err := encoder.Encode(x); err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
	}
	return nil
}

func printVerified(w io.Writer, all []verified, output string) error {
	if output != "table" {
		return encodeAll(w, all, output)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DIRECTORY\tSTATE\tSTART\tCOMMITTED\tEND\tSEGMENTS\tBATCHES\tBYTES\tEPOCHS")
	for _, v := range all {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", v.Directory, v.state(), v.Start, v.CommittedEnd, v.End,
			v.Segments, v.Batches, v.Bytes, v.epochs())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, v := range all {
		if v.CheckpointLost {
			fmt.Fprintf(w, "corrupt: checkpoint of %s\n", v.Directory)
		}
		for _, d := range v.Damaged {
			fmt.Fprintf(w, "corrupt: %s at byte %d: offsets %d to %d are lost\n", d.Path, d.Position, d.From, d.Next-1)
		}
		for _, t := range v.Torn {
			fmt.Fprintf(w, "torn: %s at byte %d: %d bytes after offset %d will be truncated\n", t.Path, t.Position, t.Bytes, t.From)
		}
	}
	return nil
}

func (v verified) state() string {
	switch {
	case !v.OK:
		return "damaged"
	case len(v.Torn) > 0:
		return "torn tail"
	}
	return "ok"
}

func (v verified) epochs() string {
	words := make([]string, 0, len(v.Epochs))
	for _, e := range v.Epochs {
		words = append(words, strconv.FormatUint(uint64(e.Epoch), 10)+"@"+strconv.FormatUint(uint64(e.Start), 10))
	}
	return strings.Join(words, " ")
}
