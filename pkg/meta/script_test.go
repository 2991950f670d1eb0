package meta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
)

// A script consists of blocks: a command line, "----" and its result. The line
// is the name of a command and its JSON, or "show". Indexes count by ten.
func TestScripts(t *testing.T) { golden.Scripts(t, "testdata/*.txt", runScript) }

func runScript(t *testing.T, text string) string {
	t.Helper()
	var s State
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		line, _, _ := strings.Cut(block, "\n----")
		fmt.Fprintf(&out, "%s\n----\n", line)
		command := line[strings.LastIndex(line, "\n")+1:] // comments stand above it
		name, body, _ := strings.Cut(command, " ")
		if name == "show" {
			out.WriteString(show(t, &s))
		} else {
			out.WriteString(outcome(s.Apply(s.Index()+10, parse(t, name, body))))
		}
		out.WriteString("\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func parse(t *testing.T, name, body string) Command {
	t.Helper()
	for _, known := range kinds {
		if known.name == name {
			c, err := known.decode([]byte(body))
			if err != nil {
				t.Fatalf("%s %s: %v", name, body, err)
			}
			return c
		}
	}
	t.Fatalf("no command %q", name)
	return nil
}

func outcome(r Result) string {
	var b strings.Builder
	switch {
	case r.Err != nil:
		fmt.Fprintf(&b, "%d refused: %v\n", r.Index, r.Err)
	case r.Existed:
		fmt.Fprintf(&b, "%d existed\n", r.Index)
	default:
		fmt.Fprintf(&b, "%d done\n", r.Index)
	}
	for i, err := range r.Failed {
		fmt.Fprintf(&b, "  part %d: %v\n", i, err)
	}
	if ch := r.Channel; ch != nil {
		fmt.Fprintf(&b, "  channel %s version %d first %v paused %v\n", ch.Name, ch.Version, ch.First, ch.Paused)
	}
	if r.Topic != nil {
		for i, p := range r.Topic.Partitions {
			fmt.Fprintf(&b, "  %s/%d leader %q epoch %d version %d replicas %v isr %v\n", r.Topic.Name, i, p.Leader, p.Epoch, p.Version, p.Replicas, p.ISR)
			if p.Moving() {
				fmt.Fprintf(&b, "    adding %v removing %v\n", p.Adding, p.Removing)
			}
		}
	}
	if n := r.Node; n != nil {
		fmt.Fprintf(&b, "  node %s incarnation %d %s\n", n.ID, n.Incarnation, n.State)
	}
	return b.String()
}

// show prints the lines of the snapshot.
func show(t *testing.T, s *State) string {
	t.Helper()
	b := encode(t, s)
	return string(b[snapshotHeader : len(b)-commandTrailer])
}

func encode(t testing.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestConfigIsWrittenAsText(t *testing.T) {
	c := TopicConfig{}.WithDefaults(3, false)
	got, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"partitions":1,"replicas":3,"auto_replicas":true,"min_isr":2,"auto_min_isr":true,"sync":"always","ordered":false,"ext":false,"retention_bytes":0,"max_message":0,"retention":"0s"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var back TopicConfig
	if err := json.Unmarshal(got, &back); err != nil || back != c {
		t.Errorf("%+v, %v", back, err)
	}
}
