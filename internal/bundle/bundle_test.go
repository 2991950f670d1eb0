package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func says(text string) func(context.Context, int) ([]byte, bool, error) {
	return func(context.Context, int) ([]byte, bool, error) { return []byte(text), false, nil }
}

func unpack(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		found[h.Name] = string(text)
	}
}

var made = time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)

// TestBundleHoldsAllAnswers: a node that fails or hangs only lacks its own files.
func TestBundleHoldsAllAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ int) ([]byte, bool, error) { <-ctx.Done(); return nil, false, ctx.Err() }
		fails := func(context.Context, int) ([]byte, bool, error) { return nil, false, errors.New("connection refused") }
		long := func(_ context.Context, max int) ([]byte, bool, error) { return make([]byte, max), true, nil }
		var out bytes.Buffer
		index, err := Write(t.Context(), &out, Head{Root: "b", Program: "brokerctl 1", Made: made}, Limits{1000, 5000}, []Source{
			{"cluster", []Question{{Name: "cluster.json", Ask: says("{}"), Timeout: time.Second}}},
			{"n1", []Question{{Name: "n1/a", Ask: hangs, Timeout: time.Second}, {Name: "n1/b", Ask: says("b"), Timeout: time.Second}, {Name: "n1/long", Ask: long, Timeout: time.Second}}},
			{"n2", []Question{{Name: "n2/a", Ask: fails, Timeout: time.Second}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := &Index{
			Made: made, Program: "brokerctl 1", Sources: []string{"cluster", "n1", "n2"}, Failures: 2,
			Files: []File{
				{Name: "cluster.json", Bytes: 2},
				{Name: "n1/a", Error: "context deadline exceeded"},
				{Name: "n1/b", Bytes: 1},
				{Name: "n1/long", Bytes: 1000, Cut: true},
				{Name: "n2/a", Error: "connection refused"},
			},
		}
		if diff := cmp.Diff(want, index); diff != "" {
			t.Error(diff)
		}
		files := unpack(t, &out)
		var stored Index
		if err := json.Unmarshal([]byte(files["b/index.json"]), &stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &stored); diff != "" {
			t.Error(diff)
		}
		if len(files) != 4 || files["b/cluster.json"] != "{}" || files["b/n1/b"] != "b" || len(files["b/n1/long"]) != 1000 {
			t.Errorf("%d files", len(files))
		}
	})
}

// A hung node costs one timeout, not one per request. A node that was slow once is asked again with
// the full timeout. A profile runs for its full duration.
func TestBundleDoesNotWaitTwiceForHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ int) ([]byte, bool, error) { <-ctx.Done(); return nil, false, ctx.Err() }
		slow := func(ctx context.Context, _ int) ([]byte, bool, error) {
			time.Sleep(5 * time.Second)
			return []byte("s"), false, ctx.Err()
		}
		var told []string
		head := Head{Root: "b", Made: made, Silent: func(source string) { told = append(told, source) }}
		began := time.Now()
		index, err := Write(t.Context(), io.Discard, head, DefaultLimits, []Source{
			{"n1", []Question{{Name: "a", Ask: hangs, Timeout: 10 * time.Second}, {Name: "b", Ask: hangs, Timeout: 10 * time.Second}, {Name: "c", Ask: says("c"), Timeout: 10 * time.Second}, {Name: "d", Ask: slow, Timeout: 10 * time.Second}}},
			{"n2", []Question{{Name: "a", Ask: hangs, Timeout: time.Second}, {Name: "p", Ask: slow, Runs: 5 * time.Second, Timeout: 10 * time.Second}}},
		})
		if err != nil || index.Failures != 3 || time.Since(began) != 16*time.Second || len(told) != 2 {
			t.Errorf("%+v after %v, told %q, %v", index, time.Since(began), told, err)
		}
	})
}

func TestBundleIsBounded(t *testing.T) {
	half := func(context.Context, int) ([]byte, bool, error) { return make([]byte, 50), false, nil }
	index, err := Write(t.Context(), io.Discard, Head{Root: "b", Made: made}, Limits{100, 100}, []Source{
		{"n1", []Question{{Name: "1", Ask: half, Timeout: time.Hour}, {Name: "2", Ask: half, Timeout: time.Hour}, {Name: "3", Ask: says("x"), Timeout: time.Hour}}},
	})
	if err != nil || index.Failures != 1 || index.Files[2].Error != "the bundle has reached its maximum of 100 bytes" {
		t.Errorf("%+v, %v", index, err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestUnwritableBundleIsAnError(t *testing.T) {
	q := []Question{{Name: "1", Ask: says("x"), Timeout: time.Hour}}
	if _, err := Write(t.Context(), fullDisk{}, Head{Root: "b", Made: made}, Limits{100, 100}, []Source{{"n1", q}}); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, io.Discard, Head{Root: "b", Made: made}, Limits{100, 100}, []Source{{"n1", q}}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted one: %v", err)
	}
}
