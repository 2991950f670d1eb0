package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// newLogger returns the logger of the process, which writes to out, the way to file. format is a
// value of the setting log-format.
func newLogger(out *logOut, file *os.File, format string, level slog.Leveler, journalStream string) *slog.Logger {
	if format == "auto" {
		format = autoFormat(file, journalStream)
	}
	log := slog.New(newHandler(out, format, level))
	out.reports(log)
	return log
}

func newHandler(out io.Writer, format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: spellDurations}
	switch format {
	case "journal":
		return &lineHandler{to: out, level: level, head: journalHead}
	case "text":
		return slog.NewTextHandler(out, options)
	}
	return slog.NewJSONHandler(out, options)
}

// spellDurations writes durations with a unit, instead of JSON's plain number of nanoseconds.
func spellDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// autoFormat chooses journal if out is the journal's stream, as described by systemd by device and
// inode, text on a terminal, and JSON otherwise.
func autoFormat(out *os.File, journalStream string) string {
	var stat unix.Stat_t
	if journalStream != "" && unix.Fstat(int(out.Fd()), &stat) == nil &&
		journalStream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) {
		return "journal"
	}
	if term.IsTerminal(int(out.Fd())) {
		return "text"
	}
	return "json"
}

// setLevel sets the least severe level by its name in the configuration.
func setLevel(v *slog.LevelVar, name string) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err == nil {
		v.Set(level)
	}
}

// lineHandler writes plain lines: a head that depends on the record, the
// message, then key=value pairs.
type lineHandler struct {
	to    io.Writer // takes one line with each Write, from many goroutines
	level slog.Leveler
	head  func(slog.Record) string
	group string // prefix of further attributes, with a dot at the end
	attrs string // already formatted
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(h.head(r))
	b.WriteString(strings.ReplaceAll(r.Message, "\n", " "))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		appendAttr(&b, h.group, a)
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.to, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		appendAttr(&b, h.group, a)
	}
	derived := *h
	derived.attrs += b.String()
	return &derived
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	derived := *h
	derived.group += name + "."
	return &derived
}

func appendAttr(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, member := range v.Group() {
			appendAttr(b, group+a.Key+".", member)
		}
		return
	}
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339Nano)
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }) {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + group + a.Key + "=" + text)
}

// journalHead is the priority by which journalctl filters. The journal adds the time.
func journalHead(r slog.Record) string {
	switch {
	case r.Level >= slog.LevelError:
		return "<3>"
	case r.Level >= slog.LevelWarn:
		return "<4>"
	case r.Level >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}

// nsqHead starts a line like nsqd, because programs wait for such lines.
func nsqHead(prefix string) func(slog.Record) string {
	return func(r slog.Record) string {
		level := "DEBUG"
		switch {
		case r.Level >= slog.LevelError:
			level = "ERROR"
		case r.Level >= slog.LevelWarn:
			level = "WARNING"
		case r.Level >= slog.LevelInfo:
			level = "INFO"
		}
		return prefix + r.Time.Format("2006/01/02 15:04:05.000000") + " " + level + ": "
	}
}

// lookupEnv returns a variable of an environment as os.Environ gives it.
func lookupEnv(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
