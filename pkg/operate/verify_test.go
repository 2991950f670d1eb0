package operate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A single copy has no other to be compared with: its digest alone says whether it is complete.
func TestDigestOfALogWithoutASegmentFails(t *testing.T) {
	disk := vfs.NewMem()
	open := func() *commitlog.Log {
		l, _, err := commitlog.Open(disk, "p", commitlog.Options{SegmentBytes: 4 << 10, FillBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	w, err := l.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		b := new(commitlog.Builder)
		clear(b.Next(500))
		if _, err := w.Append(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	l.Commit(l.End())
	if _, err := DigestOf(t.Context(), l, 3, l.End()); err != nil {
		t.Fatal(err)
	}
	if _, err := DigestOf(t.Context(), l, 3, l.End()+1); err == nil {
		t.Error("a message beyond the end is not missed")
	}
	end := l.End()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := disk.ReadDir("p")
	if err != nil {
		t.Fatal(err)
	}
	logs := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(logs) < 3 {
		t.Fatalf("only %q", logs)
	}
	if err := disk.Remove(filepath.Join("p", logs[1])); err != nil {
		t.Fatal(err)
	}
	l = open()
	defer l.Close()
	if sum, err := DigestOf(t.Context(), l, 0, end); err == nil {
		t.Errorf("digest %s of a log without %s", sum, logs[1])
	}
	var first seq.Offset // of the segment that is gone
	if _, err := fmt.Sscanf(logs[1], "%d.log", &first); err != nil {
		t.Fatal(err)
	}
	if sum, err := DigestOf(t.Context(), l, 0, first+1); err == nil {
		t.Errorf("digest %s of a range that ends in the gap", sum)
	}
	if _, err := DigestOf(t.Context(), l, 0, first); err != nil {
		t.Errorf("before the gap: %v", err)
	}
}

func TestComparisonCoversWhatAllInSyncReplicasHold(t *testing.T) {
	isr := []meta.NodeID{"a", "b"}
	for _, c := range []struct {
		what      string
		copies    map[meta.NodeID]api.Copy
		from, end int
		nodes     []meta.NodeID
	}{
		{"no replica answers", nil, 0, 0, nil},
		{"only one that is not in sync", map[meta.NodeID]api.Copy{"c": {CommittedEnd: 9}}, 0, 0, nil},
		{"equal", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 5}}, 0, 5, []meta.NodeID{"a", "b"}},
		{"one has heard of less", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 3}}, 0, 3, []meta.NodeID{"a", "b"}},
		{"retention", map[meta.NodeID]api.Copy{"a": {LogStart: 2, CommittedEnd: 5}, "b": {CommittedEnd: 5}}, 2, 5, []meta.NodeID{"a", "b"}},
		{"a third that is behind", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 5}, "c": {CommittedEnd: 4}}, 0, 5, []meta.NodeID{"a", "b"}},
		{"a third that is level", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 5}, "c": {CommittedEnd: 6}}, 0, 5, []meta.NodeID{"a", "b", "c"}},
		{"a third that has dropped more", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "c": {LogStart: 1, CommittedEnd: 6}}, 0, 5, []meta.NodeID{"a"}},
		{"all dropped", map[meta.NodeID]api.Copy{"a": {LogStart: 7, CommittedEnd: 7}, "b": {CommittedEnd: 5}}, 5, 5, []meta.NodeID{"b"}},
	} {
		from, end, nodes := common(c.copies, isr)
		if int(from) != c.from || int(end) != c.end || !slices.Equal(nodes, c.nodes) {
			t.Errorf("%s: [%d,%d) of %v, want [%d,%d) of %v", c.what, from, end, nodes, c.from, c.end, c.nodes)
		}
	}
}

func TestReplicasAreIdenticalIfAllInSyncDigestsAgree(t *testing.T) {
	isr := []meta.NodeID{"a", "b"}
	for _, c := range []struct {
		digests map[string]string
		want    bool
	}{
		{nil, false},
		{map[string]string{"a": "1", "b": "1"}, true},
		{map[string]string{"a": "1", "b": "1", "c": "1"}, true},
		{map[string]string{"a": "1"}, false},
		{map[string]string{"a": "1", "b": "2"}, false},
		{map[string]string{"a": "1", "b": "1", "c": "2"}, false},
	} {
		if got := identical(c.digests, isr); got != c.want {
			t.Errorf("%v: %v", c.digests, got)
		}
	}
}
