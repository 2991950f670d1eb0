package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func (p *program) positionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "positions", Short: "Inspect and reset channel positions on disk",
		Long: "Inspect and reset the channel positions of a partition on disk. DIR is the\npartition's directory, with its positions.* files.",
	}
	cmd.AddCommand(p.positionsDumpCommand(), p.positionsVerifyCommand(), p.positionsResetCommand())
	return cmd
}

func (p *program) positionsDumpCommand() *cobra.Command {
	return reporting(&cobra.Command{
		Use: "dump DIR", Short: "Print the position of every channel", Args: cobra.ExactArgs(1),
		Long: "Print the position of every channel as the node would load it at startup.\nNothing is changed.",
	}, func(w io.Writer, args []string, output string) error { return dumpPositions(w, args[0], output) })
}

// channelLine is a channel in the output of `positions dump`.
type channelLine struct {
	Channel   string          `json:"channel"`
	Version   uint64          `json:"version"`
	Moves     uint64          `json:"moves"`
	Floor     seq.Offset      `json:"floor"`
	Finished  [][2]seq.Offset `json:"finished"` // ranges [from, end)
	Deferred  []deferredLine  `json:"deferred"`
	Attempted []attemptedLine `json:"attempted"`
}

type deferredLine struct {
	Offset   seq.Offset `json:"offset"`
	Due      time.Time  `json:"due"`
	Attempts uint16     `json:"attempts"`
	Shared   uint16     `json:"shared_failures,omitempty"`
}

type attemptedLine struct {
	Offset   seq.Offset `json:"offset"`
	Attempts uint16     `json:"attempts"`
	Shared   uint16     `json:"shared_failures,omitempty"`
}

func channelLineOf(c *positions.Channel) channelLine {
	line := channelLine{
		Channel: c.Name, Version: c.Version, Moves: c.Moves, Floor: c.Position.Floor,
		Finished: [][2]seq.Offset{}, Deferred: []deferredLine{}, Attempted: []attemptedLine{},
	}
	for _, r := range c.Position.Finished {
		line.Finished = append(line.Finished, [2]seq.Offset{r.From, r.End})
	}
	for d := range c.Position.Deferred.All() {
		line.Deferred = append(line.Deferred, deferredLine{d.Offset, time.Unix(0, d.At).UTC(), d.Attempts.Deliveries(), d.Attempts.Shared()})
	}
	for _, a := range c.Position.Attempted {
		line.Attempted = append(line.Attempted, attemptedLine{a.Offset, a.Attempts.Deliveries(), a.Attempts.Shared()})
	}
	return line
}

func dumpPositions(w io.Writer, dir, output string) error {
	r, err := positions.Inspect(vfs.OS{}, dir)
	if err != nil {
		return err
	}
	if r.Unreadable {
		return exitWith(exitFailed, r.Damage)
	}
	lines := []channelLine{}
	for i := range r.Channels {
		lines = append(lines, channelLineOf(&r.Channels[i]))
	}
	if output != "table" {
		return encodeAll(w, lines, output)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHANNEL\tVERSION\tMOVES\tFLOOR\tFINISHED\tDEFERRED\tATTEMPTED")
	for _, l := range lines {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", l.Channel, l.Version, l.Moves, l.Floor, len(l.Finished), len(l.Deferred), len(l.Attempted))
	}
	return table.Flush()
}

func (p *program) positionsVerifyCommand() *cobra.Command {
	return reporting(&cobra.Command{
		Use: "verify DIR...", Short: "Verify channel positions", Args: cobra.MinimumNArgs(1),
		Long: "Verify every byte of channel positions. The exit code is 1 if durable data\ncannot be read. A torn write is not corruption: the previous version is used.",
	}, verifyPositions)
}

// verifiedPositions is the JSON output of `positions verify` for a directory.
type verifiedPositions struct {
	Directory string              `json:"directory"`
	State     string              `json:"state"` // ok, torn, damaged, or unreadable: nothing is intact
	Number    uint64              `json:"number"`
	Channels  int                 `json:"channels"`
	Lost      bool                `json:"lost"` // channels start at the log's start
	Files     []positionsFileLine `json:"files"`
	Problem   string              `json:"problem,omitempty"`
}

type positionsFileLine struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Problem string `json:"problem,omitempty"`
}

func verifyPositions(w io.Writer, dirs []string, output string) error {
	all := []verifiedPositions{}
	for _, dir := range dirs {
		r, err := positions.Inspect(vfs.OS{}, dir)
		if err != nil {
			return err
		}
		v := verifiedPositions{Directory: dir, State: "ok", Number: r.Number, Channels: len(r.Channels), Lost: r.Lost}
		switch {
		case r.Unreadable:
			v.State = "unreadable"
		case r.Corrupt:
			v.State = "damaged"
		case r.Damage != nil:
			v.State = "torn"
		}
		if r.Damage != nil {
			v.Problem = r.Damage.Error()
		}
		for _, f := range r.Files {
			line := positionsFileLine{Name: f.Name, Bytes: f.Bytes}
			if f.Error != nil {
				line.Problem = f.Error.Error()
			}
			v.Files = append(v.Files, line)
		}
		all = append(all, v)
	}
	if err := printVerifiedPositions(w, all, output); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(v verifiedPositions) bool { return v.State == "damaged" || v.State == "unreadable" }) {
		return silent{exitFailed}
	}
	return nil
}

func printVerifiedPositions(w io.Writer, all []verifiedPositions, output string) error {
	if output != "table" {
		return encodeAll(w, all, output)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DIRECTORY\tSTATE\tSNAPSHOT\tCHANNELS\tFILES")
	for _, v := range all {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\n", v.Directory, v.State, v.Number, v.Channels, len(v.Files))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, v := range all {
		if v.Problem != "" {
			fmt.Fprintf(w, "%s: %s\n", v.State, v.Problem)
		}
	}
	return nil
}

// resetOptions are the options of `positions reset`.
type resetOptions struct {
	channel string
	to      int64 // -1: not given
	yes     bool
}

func (p *program) positionsResetCommand() *cobra.Command {
	var o resetOptions
	cmd := &cobra.Command{
		Use: "reset DIR --yes [--channel C --to OFFSET]", Args: cobra.ExactArgs(1),
		Short: "Reset channel positions of a partition",
		Long: `Reset every channel of a partition to the log's start, or one channel to an
offset. The node must be stopped. The existing files are kept as
positions.*.damaged.N. Run as root, the command continues as the owner of DIR.

In a cluster, use this only on the last in-sync replica: if another replica is in
sync, its positions are intact and the node lets it lead automatically. Positions
sent by a leader replace what is reset here.`,
	}
	f := cmd.Flags()
	f.StringVar(&o.channel, "channel", "", "reset only this `CHANNEL`, which must exist")
	f.Int64Var(&o.to, "to", -1, "reset it to this `OFFSET`")
	f.BoolVar(&o.yes, "yes", false, "confirm: finished messages are redelivered, or messages are skipped")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return finish(resetPositions(cmd.OutOrStdout(), args[0], o))
	}
	return cmd
}

func (o *resetOptions) validate() error {
	switch {
	case (o.channel == "") != (o.to < 0):
		return exitWith(exitUsage, errors.New("--channel and --to must be given together"))
	case o.to > int64(seq.MaxOffset):
		return exitWith(exitUsage, fmt.Errorf("--to %d is not an offset in the log", o.to))
	case !o.yes:
		return exitWith(exitUsage, errors.New("reset requires --yes: it redelivers finished messages, or skips messages"))
	}
	return nil
}

func resetPositions(w io.Writer, dir string, o resetOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if _, err := positions.Inspect(vfs.OS{}, dir); err != nil {
		return err
	}
	above, err := dataDirAbove(dir)
	if err != nil {
		return err
	}
	return asOwner(above, func() error { return resetPositionsIn(above, w, dir, o) })
}

// resetPositionsIn resets positions in a data directory that no node uses; "": in a copy elsewhere.
func resetPositionsIn(above string, w io.Writer, dir string, o resetOptions) error {
	lock, err := lockAbove(above)
	if err != nil {
		return err
	}
	defer lock.Close()
	if o.channel != "" {
		if err := positions.Move(vfs.OS{}, dir, o.channel, seq.Offset(o.to)); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "channel %s starts at offset %d\n", o.channel, o.to)
		return err
	}
	if err := positions.Reset(vfs.OS{}, dir); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "every channel starts at the log's start")
	return err
}

// dataDirAbove returns the data directory that contains a partition's directory; "" for a copy
// elsewhere.
func dataDirAbove(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for up := filepath.Dir(path); up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := (vfs.OS{}).Stat(filepath.Join(up, lockFile)); err == nil {
			return up, nil
		}
	}
	return "", nil
}

// lockAbove locks a data directory, so that no node uses it, and replays its journal. A copy elsewhere
// needs neither.
func lockAbove(above string) (io.Closer, error) {
	if above == "" {
		return io.NopCloser(nil), nil
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(above, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, exitWith(exitTemporary, fmt.Errorf("data directory %s is in use by %s", above, holder(above)))
	}
	if err != nil {
		return nil, err
	}
	if err := datadir.At(vfs.OS{}, above).Replay(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}
