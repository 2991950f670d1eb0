package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// A disk that hangs while events are stored does not delay the stop of a node.
func TestHungTraceDiskDelaysNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		disk := vfstest.NewFaulty(vfs.NewMem())
		disk.Decide(func(int64, vfs.Op) vfstest.Fault { <-freed; return vfstest.Fault{Err: errors.New("freed")} })
		n := &Node{disk: hook.NewWatch(disk), serving: context.Background()}
		n.c = Config{Log: slog.New(slog.DiscardHandler), Options: config.Default()}
		close(freed) // until it has been opened
		x, err := newTracing(n)
		if err != nil {
			t.Fatal(err)
		}
		freed = make(chan struct{})
		r, err := sampling.ParseRule("on")
		if err != nil {
			t.Fatal(err)
		}
		p := trace.Source{Store: x.store, Incarnation: 1, Numbering: seq.NumberingFrom(1)}.Under(r)
		p.Step(&trace.Step{What: trace.Delivered, Offset: 1, At: time.Now()})
		begun := time.Now()
		x.close()
		if d := time.Since(begun); d != stalledClose {
			t.Errorf("closing took %v", d)
		}
		close(freed)
	})
}

func TestCollectorHeadersAreReadFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]string{"": path, "Authorization: Bearer x\n": "", "secret\n": "line 1 is not"} {
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := testNode(t)
		c.Options.Tracing.OTLPEndpoint, c.Options.Tracing.OTLPHeaders = "http://127.0.0.1:9", path
		n, err := Open(t.Context(), c)
		if err == nil {
			err = n.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", text, err)
		}
		_ = os.Remove(path)
	}
}
