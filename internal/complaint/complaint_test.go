package complaint

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// named is a text chosen by a client, such as an address or a name.
type named string

func (n named) String() string { return string(n) }

func TestClientsDoNotFillTheLog(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	var b Book
	now := time.Unix(1000, 0)
	for range 1000 {
		b.Warn(log, now, "refused")
		b.Log(log, slog.LevelInfo, now, "joined")
	}
	b.Warn(log, now.Add(every-1), "refused")
	b.Warn(log, now.Add(every), "refused")
	b.Warn(log, now.Add(2*every), "refused")
	b.Log(log, slog.LevelDebug, now.Add(2*every), "joined")
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines: %q", len(lines), lines[:min(8, len(lines))])
	}
	for i, want := range []string{"level=WARN msg=refused", "level=INFO msg=joined", "level=WARN msg=refused omitted=1000", "level=WARN msg=refused"} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

func TestClientTextIsTruncatedToOneLine(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		value any
		want  string
	}{
		"a name":         {"a\nlevel=ERROR msg=forged\r\x1b[2J\u2028\x00\xff", "a.level=ERROR msg=forged..[2J..."},
		"a long name":    {long, long[:maxText] + "..."},
		"a fitting name": {long[:maxText], long[:maxText]},
		"an error":       {errors.New(long + "\n"), long[:maxText] + "..."},
		"an address":     {named("\n" + long), "." + long[:maxText-1] + "..."},
		"a cut rune":     {strings.Repeat("x", maxText-1) + "éé", long[:maxText-1] + "...."},
	} {
		var got any
		log := slog.New(slog.NewJSONHandler(new(bytes.Buffer), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "who" {
				got = a.Value.Any()
			}
			return a
		}}))
		new(Book).Warn(log, time.Unix(1, 0), "refused", "who", tt.value)
		if got != tt.want {
			t.Errorf("%s: %.300q, want %.300q", name, got, tt.want)
		}
	}
	if got := shortened(7); got != 7 {
		t.Errorf("a number became %v", got)
	}
}

func TestLibraryOutputIsOneKindOfLine(t *testing.T) {
	var said bytes.Buffer
	var b Book
	w := b.Writer(slog.New(slog.NewTextHandler(&said, nil)), slog.LevelWarn, "HTTP")
	text := "bad " + strings.Repeat("x", 1<<10) + "\nforged\n"
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := said.String(); strings.Count(got, "\n") != 1 || len(got) > 2*maxText || !strings.Contains(got, `level=WARN msg=HTTP error="bad xx`) {
		t.Errorf("said %q", got)
	}
}
