package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// writePositions stores three snapshots of a partition in a data directory and
// returns the partition's directory.
func writePositions(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	dir := filepath.Join(data, "topics", "t.1", "0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k, _, err := positions.OpenKeeper(positions.KeeperOptions{FS: vfs.OS{}, Dir: dir, Source: oneChannel{}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		k.MarkDirty()
		if err := k.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// oneChannel is the source of the positions of one channel.
type oneChannel struct{}

func (oneChannel) Changes() (positions.Update, bool) { return positions.Update{}, false }

func (oneChannel) Current() positions.Snapshot {
	return positions.Snapshot{Channels: []positions.Channel{{Name: "c", Version: 4, Position: position.Position{
		Floor:    10,
		Finished: []position.Range{{From: 12, End: 15}},
		Deferred: position.NewDeferralSet(position.Deferral{Offset: 20, At: time.Unix(1700000000, 0).UnixNano(), Delay: time.Hour, Attempts: 2}),
	}}}}
}

func TestDumpOfPositionsShowsEveryChannel(t *testing.T) {
	dir := writePositions(t)
	var out bytes.Buffer
	if err := dumpPositions(&out, dir, "json"); err != nil {
		t.Fatal(err)
	}
	var lines []channelLine
	if err := json.Unmarshal(out.Bytes(), &lines); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1 || lines[0].Channel != "c" || lines[0].Floor != 10 || len(lines[0].Finished) != 1 || lines[0].Deferred[0].Attempts != 2 {
		t.Errorf("%+v", lines)
	}
	out.Reset()
	if err := dumpPositions(&out, dir, "table"); err != nil || !strings.Contains(out.String(), "c        4") {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, none := range []string{t.TempDir(), "no/such"} {
		for what, err := range map[string]error{"dump": dumpPositions(&out, none, "table"), "verify": verifyPositions(&out, []string{none}, "table")} {
			if exitCode(err) != exitDisk {
				t.Errorf("%s of a directory without positions: %v, exit code %d", what, err, exitCode(err))
			}
		}
	}
}

func spoil(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content[20] ^= 1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyOfPositionsFindsDamage(t *testing.T) {
	dir := writePositions(t)
	var out bytes.Buffer
	if err := verifyPositions(&out, []string{dir}, "table"); err != nil || !strings.Contains(out.String(), "ok") {
		t.Errorf("%v\n%s", err, &out)
	}
	spoil(t, dir, "positions.0")
	out.Reset()
	if err := verifyPositions(&out, []string{dir}, "json"); err != nil || !strings.Contains(out.String(), `"state": "torn"`) {
		t.Errorf("one of two: %v\n%s", err, &out)
	}
	spoil(t, dir, "positions.1")
	out.Reset()
	if err := verifyPositions(&out, []string{dir}, "table"); exitCode(err) != exitFailed || !strings.Contains(out.String(), "unreadable") {
		t.Errorf("both: %v\n%s", err, &out)
	}
	if err := dumpPositions(&out, dir, "table"); exitCode(err) != exitFailed {
		t.Errorf("dump: %v", err)
	}
}

func TestResetOfPositions(t *testing.T) {
	dir := writePositions(t)
	var out bytes.Buffer
	for _, o := range []resetOptions{{to: -1}, {to: 5, yes: true}, {channel: "c", to: -1, yes: true}} {
		if err := resetPositions(&out, dir, o); exitCode(err) != exitUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := resetPositions(&out, dir, resetOptions{channel: "none", to: 3, yes: true}); exitCode(err) == 0 {
		t.Error("a channel that is not stored was moved")
	}
	if err := resetPositions(&out, dir, resetOptions{channel: "c", to: 3, yes: true}); err != nil {
		t.Fatal(err)
	}
	r, err := positions.Inspect(vfs.OS{}, dir)
	if err != nil || r.Channels[0].Position.Floor != 3 || len(r.Channels[0].Position.Finished) != 0 || r.Channels[0].Moves != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	spoil(t, dir, "positions.1")
	if err := resetPositions(&out, dir, resetOptions{to: -1, yes: true}); err != nil {
		t.Fatal(err)
	}
	if r, err = positions.Inspect(vfs.OS{}, dir); err != nil || !r.Lost || len(r.Channels) != 0 || r.Damage != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "positions.*.damaged.*"))
	if err != nil || len(kept) < 3 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestResetNeedsAStoppedNode(t *testing.T) {
	dir := writePositions(t)
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, "..", "..", "..", lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := resetPositions(&bytes.Buffer{}, dir, resetOptions{to: -1, yes: true}); exitCode(err) != exitTemporary {
		t.Errorf("a running node's positions: %v", err)
	}
}
