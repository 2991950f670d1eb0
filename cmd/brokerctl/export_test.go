package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/batching"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
)

func TestLinesOfAnExportAreReadOneByOne(t *testing.T) {
	const good = `{"partition":1,"seq":2,"id":"2b839aa76e4d64b7","timestamp":"2026-11-21T06:00:00Z","body":"eA=="}`
	for _, x := range []struct {
		text string
		read []int
		want string
	}{
		{"", nil, ""},
		{good + "\n\n" + good + "\r\n" + good, []int{1, 3, 4}, ""},
		{good + "\n" + good[:40], []int{1}, "line 2 is not an exported message: the file ends within the line"},
		{good + "\nnonsense\n" + good, []int{1}, "line 2 is not an exported message: invalid character"},
		{`{"partition":1}` + "\n", nil, "line 1 is not an exported message: it has no body"},
		{`{"body":"?"}` + "\n", nil, "line 1 is not an exported message"},
		{good + "\n" + strings.Repeat("x", 300_000), []int{1}, "line 2: longer than 200000 bytes"},
	} {
		var read []int
		err := exportedLines(strings.NewReader(x.text), 200_000, func(number int, e exported) error {
			if string(e.Body) != "x" || e.Partition != 1 {
				t.Errorf("%+v", e)
			}
			read = append(read, number)
			return nil
		})
		if !slices.Equal(read, x.read) || x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%.60q: lines %v, %v", x.text, read, err)
		}
	}
	stop := errors.New("stop")
	if err := exportedLines(strings.NewReader(good+"\n"+good), 1000, func(int, exported) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestImportedMessageIsTheExportedOne(t *testing.T) {
	later := midnight().Add(time.Minute)
	e := exported{Message: backup.Message{ID: "2b839aa76e4d64b7", Key: "k", Dedup: "d", TTLMS: 5, DeliverAt: &later, Headers: json.RawMessage(`{"a":1}`), TraceID: "7", Body: []byte("x")}}
	o := importing{}
	m, err := o.messageOf(&e, midnight())
	if err != nil || m.Key != "k" || m.Dedup != "d" || m.TTLMS != 5 || m.DelayMS != 60_000 || string(m.Headers) != `{"a":1}` || m.TraceIDHex != "7" || string(m.Body) != "x" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, _ := o.messageOf(&e, later.Add(time.Hour)); m.DelayMS != 0 {
		t.Errorf("due long ago: %+v", m)
	}
	o.once = true
	if m, err := o.messageOf(&e, midnight()); err != nil || m.Dedup != "import/2b839aa76e4d64b7" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, e.ID = range []string{"", "x"} {
		if _, err := o.messageOf(&e, midnight()); err == nil {
			t.Errorf("took id %q", e.ID)
		}
	}
}

func TestFailedImportReportsHowToContinue(t *testing.T) {
	const line = `{"partition":0,"id":"2b839aa76e4d64b7","body":"eA=="}` + "\n"
	for _, x := range []struct {
		name, text string
		args       []string
		exit       int
		want       string
	}{
		{"empty", "", nil, exitOK, "0 messages published to orders"},
		{"bad first line", "x\n" + line, nil, failure.ExitUsage, "line 1 is not"},
		{"bad third line", line + line + "x\n", nil, failure.ExitPartial, "--from-line 3"},
		{"dry", line + line, []string{"--dry-run"}, exitOK, "dry run: 2 messages would be published"},
		{"from a line on", line + line + line, []string{"--from-line", "3", "--dry-run"}, exitOK, "dry run: 1 message would"},
		{"no rate", line, []string{"--rate", "fast"}, failure.ExitUsage, "--rate"},
		{"no line", line, []string{"--from-line", "0"}, failure.ExitUsage, "--from-line"},
	} {
		b := newFakeBroker(t)
		args := append([]string{"message", "import", "orders", "-f", "-", "--addr", b.URL}, x.args...)
		r := runWith(t, environment{stdin: strings.NewReader(x.text)}, args...)
		if r.exit != x.exit || !strings.Contains(r.stdout+r.stderr, x.want) {
			t.Errorf("%s: exit %d, %s%s", x.name, r.exit, r.stdout, r.stderr)
		}
	}
}

// TestImportCountsHeaders sends messages with large headers in small batches: together they exceed
// the size limit of one request.
func TestImportCountsHeaders(t *testing.T) {
	line := fmt.Sprintf(`{"partition":0,"id":"2b839aa76e4d64b7","body":"eA==","headers":{"x":"%s"}}`+"\n", strings.Repeat("x", 60_000))
	b := newFakeBroker(t)
	r := runWith(t, environment{stdin: strings.NewReader(strings.Repeat(line, 100))}, "message", "import", "orders", "-f", "-", "--addr", b.URL)
	if r.exit != exitOK {
		t.Fatalf("exit %d, %s%s", r.exit, r.stdout, r.stderr)
	}
	asked := b.changes()
	for _, x := range asked {
		if len(x) > batching.MaxBytes+100_000 {
			t.Errorf("a request has %d bytes", len(x))
		}
	}
	if len(asked) < 5 {
		t.Errorf("%d requests for 100 messages", len(asked))
	}
}
