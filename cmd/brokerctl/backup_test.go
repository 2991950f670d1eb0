package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
)

// backupsOf returns a directory with a complete backup of one message, and an incomplete one.
func backupsOf(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	r, ctx := backup.In(backup.Dir(path)), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	work, err := r.Begin(ctx, "b1")
	must(err)
	_, err = r.Begin(ctx, "b2")
	must(err)
	w := work.Messages(nil)
	must(w.Add(ctx, &backup.Message{Body: []byte("one"), Timestamp: clock()}))
	chunks, err := w.Close(ctx)
	must(err)
	must(work.Complete(ctx, &backup.Manifest{Format: backup.Format, ID: "b1", Created: clock(), Topics: []backup.Topic{{
		Name: "orders", Config: []byte(`{"partitions":1}`), Partitions: []backup.Partition{{End: 1, Chunks: chunks}},
	}}}))
	return path
}

func TestBackupsAreListedAndVerifiedWithoutABroker(t *testing.T) {
	dir := backupsOf(t)
	chunk, _ := filepath.Glob(filepath.Join(dir, "chunks", "*"))
	for _, c := range []struct {
		args   []string
		exit   int
		stdout string
		stderr string
	}{
		{[]string{"backup", "list", dir}, exitOK, "complete    1       1", ""},
		{[]string{"backup", "list", dir, "-o", "name"}, exitOK, "b1\nb2\n", ""},
		{[]string{"backup", "list", dir + "x"}, failure.ExitNotFound, "", "holds no backups"},
		{[]string{"backup", "verify", dir + "x"}, failure.ExitNotFound, "", "holds no backups"},
		{[]string{"backup", "restore", dir + "x"}, failure.ExitNotFound, "", "holds no backups"},
		{[]string{"backup", "verify", dir}, exitOK, "backup b1 is intact: 1 message of 1 topic", ""},
		{[]string{"backup", "verify", dir, "--backup", "b2"}, failure.ExitRefused, "", "backup is incomplete"},
		{[]string{"backup", "verify", dir, "--backup", "b3"}, failure.ExitNotFound, "", "no such backup"},
		{[]string{"backup", "verify"}, failure.ExitUsage, "", "requires a STORE"},
		{[]string{"backup", "restore", dir, "--as", "x"}, failure.ExitUsage, "", "--as requires --topic"},
		{[]string{"backup", "restore", dir, "--topic", "orders", "--as", "x y"}, failure.ExitUsage, "", "is not a valid topic name"},
		{[]string{"backup", "restore", dir, "--topic", "clicks"}, failure.ExitNotFound, "", "topic clicks: topic not found in the backup"},
		{[]string{"backup", "restore", dir, "--replicas", "-1"}, failure.ExitUsage, "", "--replicas must not be below 0"},
	} {
		r := newFakeBroker(t).brokerctl(t, c.args...)
		if r.exit != c.exit || !strings.Contains(r.stdout, c.stdout) || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%v: exit %d\n%s%s", c.args, r.exit, r.stdout, r.stderr)
		}
	}
	if err := os.Truncate(chunk[0], 10); err != nil {
		t.Fatal(err)
	}
	if r := newFakeBroker(t).brokerctl(t, "backup", "verify", dir); r.exit != failure.ExitFailed || !strings.Contains(r.stdout, "orders/0: corrupt: chunk "+chunk[0]+" has 10 bytes") {
		t.Errorf("damaged: exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	b := newFakeBroker(t)
	if r := b.brokerctl(t, "backup", "restore", dir); r.exit != failure.ExitFailed || len(b.changes()) > 0 {
		t.Errorf("restored what is damaged: exit %d, %v\n%s", r.exit, b.changes(), r.stderr)
	}
	manifest := filepath.Join(dir, "backups", "b1.json")
	if err := os.Truncate(manifest, 10); err != nil {
		t.Fatal(err)
	}
	if r := newFakeBroker(t).brokerctl(t, "backup", "list", dir); r.exit != exitOK || !strings.Contains(r.stdout, "b1      corrupt") {
		t.Errorf("a damaged manifest: exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
}
