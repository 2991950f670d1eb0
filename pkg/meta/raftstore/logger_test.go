package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// TestDeadNodeDoesNotFillTheLog: the library's messages about it are logged at debug level,
// also if the codec of its requests has turned the error into text.
func TestDeadNodeDoesNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	b := newBridge(slog.New(slog.NewTextHandler(&out, nil)))
	for _, err := range []error{
		io.EOF, fmt.Errorf("read: %w", io.ErrUnexpectedEOF), errors.New("msgpack decode error [pos 0]: EOF"), errors.New("msgpack decode error [pos 12]: unexpected EOF"),
		errors.New("msgpack decode error [pos 0]: read tcp 10.0.0.1:4152->10.0.0.2:5: read: connection reset by peer"),
		errors.New("msgpack decode error [pos 0]: read tcp 10.0.0.1:4152->10.0.0.2:5: i/o timeout"),
	} {
		b.Error("failed to decode incoming command", "error", err)
	}
	b.Error("failed to get log", "index", 7, "error", raft.ErrLogNotFound) // the follower gets a snapshot
	if out.Len() > 0 {
		t.Errorf("logged:\n%s", &out)
	}
	b.Error("failed to get log", "index", 7, "error", errors.New("checksum mismatch"))
	if !strings.Contains(out.String(), "checksum mismatch") {
		t.Errorf("damage is not logged:\n%s", &out)
	}
	b.Error("failed to decode incoming command", "error", errors.New("msgpack decode error [pos 3]: invalid length"))
	if !strings.Contains(out.String(), "invalid length") {
		t.Errorf("damage is not logged:\n%s", &out)
	}
}

func TestRepeatedWarningsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := newBridge(slog.New(slog.NewTextHandler(&out, nil)))
		for range 130 {
			b.Warn("slow", "peer", "n2")
			b.With("part", "x").Named("y").Warn("slow") // the same text
			b.Error("other")
			time.Sleep(time.Second)
		}
		text := out.String()
		if n := strings.Count(text, "raft: slow"); n != 3 {
			t.Errorf("%d lines in 130 s, want 3:\n%s", n, text)
		}
		if n := strings.Count(text, "raft: other"); n != 3 || !strings.Contains(text, "repeated=119") || !strings.Contains(text, "repeated=59") {
			t.Errorf("%d lines of another text in 130 s, want 3, with how many were left out:\n%s", n, text)
		}
	})
}

// The library passes formats and values, which become texts in the log.
func TestLibraryLogFormatsAreText(t *testing.T) {
	var out bytes.Buffer
	b := newBridge(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	b.Debug("initial configuration", "servers", hclog.Fmt("%+v", []string{"n1", "n2"}))
	b.With("peers", hclog.Fmt("%d of %d", 2, 3)).Warn("odd")
	if text := out.String(); !strings.Contains(text, `servers="[n1 n2]"`) || !strings.Contains(text, `peers="2 of 3"`) {
		t.Errorf("logged:\n%s", text)
	}
}
