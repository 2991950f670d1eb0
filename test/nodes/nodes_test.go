package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLinesOfSeveralWritersStayWhole(t *testing.T) {
	var out bytes.Buffer
	lines := NewLines(&out)
	a, b := lines.Prefix("a "), lines.Prefix("b ")
	for _, w := range []struct {
		to   *Prefixed
		text string
	}{{a, "one\ntw"}, {b, "three"}, {a, "o\n"}, {b, "\n\n"}, {a, "no end"}} {
		if n, err := w.to.Write([]byte(w.text)); n != len(w.text) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if got, want := out.String(), "a one\na two\nb three\nb \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "brokerd")
	if _, err := New(Options{Program: program}); err == nil || !strings.Contains(err.Error(), program) {
		t.Errorf("%v does not name the missing program", err)
	}
}

func TestFreeAddressesDiffer(t *testing.T) {
	all, err := new(Ports).Free(5)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range all {
		for _, x := range []string{a.TCP, a.HTTP, a.Lookup, a.Cluster} {
			if seen[x] {
				t.Errorf("%s twice", x)
			}
			seen[x] = true
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d addresses", len(seen))
	}
}

func TestDefaultAddressesMatchManual(t *testing.T) {
	want := Addresses{TCP: "127.0.0.1:4350", HTTP: "127.0.0.1:4351", Lookup: "127.0.0.1:4361", Cluster: "127.0.0.1:4352"}
	if got := Usual(3)[2]; got != want {
		t.Errorf("the third node is at %v, not %v", got, want)
	}
}

func TestTopicIsCompleteWhenAllReplicasAreInSync(t *testing.T) {
	whole := Partition{Leader: "n1", Replicas: []string{"n1", "n2"}, ISR: []string{"n2", "n1"}}
	headless, behind := whole, whole
	headless.Leader = ""
	behind.ISR = []string{"n1"}
	if err := (Topic{Partitions: []Partition{whole}}).Whole(); err != nil {
		t.Error(err)
	}
	for _, p := range []Partition{headless, behind} {
		if (Topic{Partitions: []Partition{whole, p}}).Whole() == nil {
			t.Errorf("%+v is whole", p)
		}
	}
}

func TestCommandLineMatchesManual(t *testing.T) {
	program, err := filepath.Abs("nodes_test.go") // any file
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Program: program, Dir: "d", Nodes: Usual(2), Args: []string{"--x"}, Wrap: func(int) []string { return []string{"w"} }})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"w", program, "--node-id", "n2", "--data-dir", "d/n2",
		"--tcp-address", "127.0.0.1:4250", "--http-address", "127.0.0.1:4251", "--lookup-address", "127.0.0.1:4261",
		"--cluster-address", "127.0.0.1:4252", "--bootstrap-expect", "2", "--join", "127.0.0.1:4152,127.0.0.1:4252", "--x",
	}
	if got := c.Nodes[1].args; !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if n := c.Grow(Addresses{}); c.Node("n3") != n || c.Node("n4") != nil {
		t.Error("a node is not found by its name")
	}
}

func TestRefusingNodeIsNotAskedTwice(t *testing.T) {
	asked := 0
	answer := func(status int) *Node {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"controller":"n1"}`))
		}))
		t.Cleanup(s.Close)
		n := &Node{Addresses: Addresses{HTTP: strings.TrimPrefix(s.URL, "http://")}}
		n.state.Store(running)
		return n
	}
	c := &Cluster{Nodes: []*Node{{}, answer(503), answer(200), answer(200)}}
	if info, err := c.Info(context.Background()); err != nil || info.Controller != "n1" || asked != 2 {
		t.Errorf("%v, %v after %d", info, err, asked)
	}
	asked = 0
	c = &Cluster{Nodes: []*Node{answer(404), answer(200)}}
	var status *StatusError
	if _, err := c.Info(context.Background()); !errors.As(err, &status) || status.Status != 404 || asked != 1 {
		t.Errorf("%v after %d", err, asked)
	}
}

func TestMissingNodesAreFoundAnywhereInAnAnswer(t *testing.T) {
	for text, want := range map[string]int{
		`{"name":"t","partitions":[{"partition":0}]}`:                                     0,
		`{"missing_nodes":[]}`:                                                            0,
		`{"topics":[{"name":"t"},{"name":"u","missing_nodes":["n2"]}]}`:                   1,
		`{"missing_nodes":["n2","n3"],"channels":[{"lag":{"missing_nodes":["n2"]}}]}`:     3,
		`[{"partitions":[{"partition":0},{"partition":1,"missing_nodes":["n1"]}],"a":1}]`: 1,
	} {
		var answer any
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		if got := missingNodes(answer); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}
