package blackbox

import (
	"regexp"
	"strings"
	"testing"
)

// helpLine is a command in a help text, with a comment or without.
var helpLine = regexp.MustCompile(`^  (?:brokerctl|brokerd|systemctl) .*[^:]$`)

// procedures returns the blocks of successive commands in the help of a program, without the list of its commands.
func procedures(t *testing.T, program string, args ...string) (blocks [][]string) {
	t.Helper()
	code, help, errs := run(t, program, append(args, "--help")...)
	if code != 0 {
		t.Fatalf("%s %v: exit %d %s", program, args, code, errs)
	}
	var block []string
	for line := range strings.Lines(help + "\n") {
		line = strings.TrimRight(line, "\n")
		switch usage := strings.HasSuffix(line, "[flags]") || strings.HasSuffix(line, "[command]"); {
		case helpLine.MatchString(line) && !usage:
			block = append(block, strings.TrimSpace(line))
		case len(block) > 0:
			blocks, block = append(blocks, block), nil
		}
	}
	return blocks
}

// helped starts three nodes with access control on for a procedure of a help text. There is no terminal: the commands get the answer
// that they would ask for.
func helped(t *testing.T, steps []string) *night {
	t.Helper()
	t.Parallel()
	n := threeMachines(t, nil)
	for _, step := range steps {
		for _, asks := range []string{"node decommission NODE", "node remove NODE"} {
			step = strings.Replace(step, asks, asks+" --yes", 1)
		}
		n.steps = append(n.steps, step)
	}
	n.topic("one", "two", "three")
	n.secured()
	return n
}

// The help of the programs, and nothing else, is enough for a drain, a replacement and a recovery.
func TestTheHelpIsEnough(t *testing.T) {
	t.Parallel()
	node, recovery := procedures(t, "brokerctl", "node"), procedures(t, "brokerd", "recover")
	if len(node) != 3 || len(recovery) != 1 {
		t.Fatalf("the help of node has %d procedures, that of recover %d:\n%q\n%q", len(node), len(recovery), node, recovery)
	}
	t.Run("drain", func(t *testing.T) {
		n := helped(t, node[0])
		n.words["NODE"] = "n2"
		n.next()
		if leads := strings.TrimSpace(n.ctl("node describe n2 -o 'go-template={{.leaders}}'")); leads != "0" {
			t.Errorf("the drained node leads %s partitions", leads)
		}
		n.next()
		n.ctl("message pub orders four")
		n.next()
		n.shows(healthy)
		n.cured()
		n.holds("4")
	})
	t.Run("replace under its name", func(t *testing.T) {
		n := helped(t, node[1])
		n.words["NODE"] = "n3"
		n.kills("n3")
		if err := n.Node("n3").Wipe(); err != nil {
			t.Fatal(err)
		}
		n.shows(`down`)
		n.next()
		n.shows(healthy)
		n.cured()
		n.holds("3")
	})
	t.Run("replace by another", func(t *testing.T) {
		n := helped(t, node[2])
		n.words["NODE"] = "n3"
		at, err := ports.Free(1)
		if err != nil {
			t.Fatal(err)
		}
		if fresh := n.Grow(at[0]); fresh.Start() != nil || fresh.Ready(t.Context()) != nil {
			t.Fatal("the new node does not start")
		}
		for range len(n.steps) - 1 {
			n.next()
		}
		n.shows(healthy)
		n.cured()
		n.holds("3")
		if all := n.ctl("node list -o name"); strings.Contains(all, "n3") || !strings.Contains(all, "n4") {
			t.Errorf("the nodes are %q", all)
		}
	})
	t.Run("recover", func(t *testing.T) {
		n := helped(t, recovery[0])
		for i := range n.steps {
			n.steps[i] = strings.ReplaceAll(n.steps[i], "/var/lib/brokerd", n.Node("n1").Data())
		}
		for _, id := range []string{"n2", "n3"} {
			n.kills(id)
			if err := n.Node(id).Wipe(); err != nil {
				t.Fatal(err)
			}
		}
		n.next()
		if out, err := n.try(); err == nil || !strings.Contains(out, "orders/0") {
			t.Errorf("what would be lost: %v\n%s", err, out)
		}
		n.next()
		n.systemctl = n.serviceOfAll
		for range len(n.steps) - n.ran - 1 {
			n.next()
		}
		n.shows(healthy)
		n.cured()
		n.holds("3")
	})
}

// holds checks that orders/invoice has so many messages, the same ones in all replicas.
func (n *night) holds(depth string) {
	n.Helper()
	n.ctl("partition verify orders")
	if got := n.depth(); got != depth {
		n.Errorf("%s messages, want %s", got, depth)
	}
}
