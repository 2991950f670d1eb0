package diskspace

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestLowDiskHasHysteresis(t *testing.T) {
	const reserve = 800
	at := time.Unix(1000, 0)
	var d level
	for i, step := range []struct { // the low ones are the second to the fourth, and the last seven but one
		after time.Duration
		free  uint64
		want  Room
		full  bool
	}{
		{0, reserve, Enough, false},
		{time.Second, reserve - 1, Low, true},
		{time.Second, reserve, Low, true},
		{time.Second, reserve + reserve/Margin - 1, Low, true},
		{time.Second, reserve + reserve/Margin, Enough, true},
		{calm - 2*time.Second, reserve, Enough, true},
		{time.Second - 1, reserve, Enough, true}, // almost calm since it was low last
		{1, reserve, Enough, false},
		{time.Second, reserve + ampleBytes, Ample, false},
		{time.Second, reserve / FollowerShare, Low, true},
		{time.Second, reserve/FollowerShare - 1, Brimful, true},
		{time.Second, reserve, Brimful, true},
		{time.Second, reserve + reserve/Margin, Enough, true},
		{time.Second, reserve - 1, Low, true},
		{time.Second, 0, Brimful, true},
	} {
		at = at.Add(step.after)
		got := d.observe(at, step.free, reserve)
		if full := d.full(at); got != step.want || full != step.full {
			t.Errorf("step %d, %d bytes free: room %d, full %v; want %d, %v", i, step.free, got, full, step.want, step.full)
		}
	}
}

func TestMetadataLeaderWithoutSpaceYieldsOccasionally(t *testing.T) {
	at := time.Unix(1000, 0)
	var d level
	for i, step := range []struct {
		after        time.Duration
		leads, space bool
		want         bool
	}{
		{0, true, true, false},
		{minLead, true, true, false},
		{0, true, false, true},
		{0, false, false, false},
		{0, true, false, false}, // it has just begun to lead
		{minLead - 1, true, false, false},
		{1, true, false, true},
	} {
		at = at.Add(step.after)
		if got := d.yields(at, step.leads, step.space); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

func TestHeadroomCountsUnreportedUsage(t *testing.T) {
	var h headroom
	h.observe(1000, 400)
	if !h.reserve(500) || h.reserve(101) || !h.reserve(100) || h.reserve(1) {
		t.Error("600 bytes are there to be taken")
	}
	h.observe(1000, 400) // none of it is written
	if h.reserve(1) {
		t.Error("the same bytes are given twice")
	}
	h.observe(900, 400)
	if !h.reserve(500) || h.reserve(1) {
		t.Error("500 bytes are there after that")
	}
	if h.shows(900, 400) >= 400 {
		t.Error("a disk that refused a publish is not low")
	}
	if h.spare(1) || h.shows(900, 400) != 900 {
		t.Error("what can wait makes the disk low")
	}
	h.observe(1500, 400)
	h.observe(1500, 400) // all that was taken is written
	if h.spare(1101) || !h.spare(1000) || h.reserve(101) || !h.reserve(100) {
		t.Error("what can wait takes too much, or too little")
	}
	h.observe(100, 400)
	if h.reserve(1) {
		t.Error("the reserve is given")
	}
	h.unknown()
	if !h.reserve(1 << 40) {
		t.Error("publishes are refused though nothing is known of the disk")
	}
}

// disk is a file system of which only the usage is known.
type disk struct {
	vfs.FS
	usage vfs.Usage
}

func (d *disk) Usage(string) (vfs.Usage, error) { return d.usage, nil }

// A file system without inodes takes no segment, however many bytes are free.
func TestDiskWithoutInodesIsLow(t *testing.T) {
	d := &disk{FS: vfs.NewMem(), usage: vfs.Usage{Total: 1 << 40, Free: 1 << 39, FewFiles: true}}
	var said bytes.Buffer
	s := New(d, "/data", 1<<20, slog.New(slog.NewTextHandler(&said, nil)))
	if r := s.Look(); r != Low || !s.Low() || s.Reserve(1) || s.Brimful() {
		t.Errorf("level %d, low %v, brimful %v", r, s.Low(), s.Brimful())
	}
	if !strings.Contains(said.String(), "inodes") || !strings.Contains(s.Shortage(), "inodes") {
		t.Errorf("the log says %q, the health %q", said.String(), s.Shortage())
	}
	d.usage = vfs.Usage{Total: 1 << 40, Free: 1 << 10}
	if r := s.Look(); r > Low || strings.Contains(s.Shortage(), "inodes") {
		t.Errorf("level %d without bytes, the health says %q", r, s.Shortage())
	}
	d.usage.Free = 1 << 39
	if r := s.Look(); r != Ample || !s.Reserve(1) {
		t.Errorf("level %d after files were removed", r)
	}
}

// TestDiskAtTheLimitDoesNotFillTheLog: retention frees what publishers fill, and each crossing had a line.
func TestDiskAtTheLimitDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		d := &disk{FS: vfs.NewMem()}
		var said bytes.Buffer
		s := New(d, "/data", reserve, slog.New(slog.NewTextHandler(&said, nil)))
		look := func(free uint64) {
			d.usage = vfs.Usage{Total: 1 << 40, Free: free}
			s.Look()
			time.Sleep(time.Second) // of virtual time
		}
		for range 100 {
			look(reserve / 4) // brimful, too
			if !s.Low() {
				t.Fatal("not low")
			}
			look(reserve * 2)
			if s.Low() {
				t.Fatal("low")
			}
		}
		if n := strings.Count(said.String(), "\n"); n != 2 || !strings.Contains(said.String(), "disk nearly full") || !strings.Contains(said.String(), "half of the disk reserve") {
			t.Errorf("%d lines:\n%s", n, said.String())
		}
		said.Reset()
		for range int(2 * rest / time.Second) {
			look(reserve * 2)
		}
		if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "publishes are accepted") || !strings.Contains(text, "times_low=100") {
			t.Errorf("once it has room:\n%s", text)
		}
		said.Reset()
		if look(reserve / 4); strings.Count(said.String(), "\n") != 2 {
			t.Errorf("low again:\n%s", said.String())
		}
	})
}
