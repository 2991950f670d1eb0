package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
)

// actsTo returns the acts with indexes from one to another.
func actsTo(from, to uint64) (all []*meta.Act) {
	for i := from; i <= to; i++ {
		all = append(all, &meta.Act{Index: i, At: int64(i), Verb: "POST /v1/topics", Request: strings.Repeat("x", 400), Status: 201})
	}
	return all
}

// indexesIn returns the indexes of the acts in a file as "1 2 3".
func indexesIn(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, maxActLine)
	for lines.Scan() {
		var a api.Act
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		all = append(all, fmt.Sprint(a.Index))
	}
	return strings.Join(all, " ")
}

// TestAuditFileHasEachActOnce, through restarts, a torn line, an error, and a file that was moved away.
func TestAuditFileHasEachActOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	open := func() *auditFile { return &auditFile{path: path, log: slog.New(slog.DiscardHandler)} }
	write := func(f *auditFile, acts []*meta.Act) {
		t.Helper()
		if err := f.write(acts); err != nil {
			t.Fatal(err)
		}
	}
	f := open()
	write(f, nil)
	write(f, actsTo(3, 5))
	write(f, actsTo(4, 6)) // the audit log has dropped 3
	write(open(), actsTo(4, 7))
	if got := indexesIn(t, path); got != "3 4 5 6 7" {
		t.Errorf("%s", got)
	}
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"index":8,"at":"20`); err != nil {
		t.Fatal(err)
	}
	_ = torn.Close()
	f = open()
	write(f, actsTo(4, 8))
	if got := indexesIn(t, path); got != "3 4 5 6 7 8" {
		t.Errorf("after a torn line: %s", got)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(f, actsTo(4, 9))
	if got := indexesIn(t, path); got != "9" {
		t.Errorf("after it was moved away: %s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open().write(actsTo(4, 10)); err == nil {
		t.Error("a file of something else is written to")
	}
	blocked := &auditFile{path: filepath.Join(path, "below"), log: f.log}
	if err := blocked.write(actsTo(1, 1)); err == nil {
		t.Error("a path below a file")
	}
}

// TestAuditFilesAreRotated: so many are kept, and none of their acts is written again.
func TestAuditFilesAreRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	f := &auditFile{path: path, log: slog.New(slog.DiscardHandler)}
	for i := range auditFilesKept + 3 {
		if err := f.write(actsTo(uint64(2*i+1), uint64(2*i+2))); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, auditFileBytes); err != nil { // it has many more
			t.Fatal(err)
		}
	}
	for i := range auditFilesKept + 1 {
		raw, err := os.ReadFile(f.numbered(i))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"index":%d,`, 2*(auditFilesKept+2-i)+1); !bytes.HasPrefix(raw, []byte(want)) {
			t.Errorf("%s begins with %.20s, want %s", f.numbered(i), raw, want)
		}
	}
	if _, err := os.Stat(f.numbered(auditFilesKept + 1)); err == nil {
		t.Error("more are kept")
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(api.Act{Index: 22})
	if err == nil {
		err = os.WriteFile(f.numbered(1), append(line, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := (&auditFile{path: path}).write(actsTo(21, 23)); err != nil {
		t.Fatal(err)
	}
	if got := indexesIn(t, path); got != "23" {
		t.Errorf("after a restart between the two files: %s", got)
	}
}
