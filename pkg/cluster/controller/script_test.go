package controller

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/meta"
)

// A script is the history of a cluster: lines of events, and after "----" the controller's
// reaction. See play for the words.
func TestHistories(t *testing.T) { golden.Scripts(t, "testdata/*.txt", history) }

func history(t *testing.T, text string) string {
	t.Helper()
	w := newWorld(t, Options{})
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines, _, _ := strings.Cut(block, "\n----")
		w.log.Reset()
		for line := range strings.SplitSeq(lines, "\n") {
			if !strings.HasPrefix(line, "#") {
				play(t, w, strings.Fields(line))
			}
		}
		out.WriteString(lines + "\n----\n" + w.log.String() + "\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// play executes one event.
func play(t *testing.T, w *world, words []string) {
	t.Helper()
	arg := func(i int) string {
		if i >= len(words) {
			return ""
		}
		return words[i]
	}
	node := meta.NodeID(arg(1))
	switch words[0] {
	case "start": // start NODE [ZONE]: its process starts
		w.start(node, arg(2))
	case "answers", "refuses", "silent": // NODE's reaction to probes
		w.nodes[node] = map[string]behaviour{"answers": answers, "refuses": refuses, "silent": silent}[words[0]]
	case "clock": // clock NODE AHEAD: its clock is ahead of the others'
		w.skews[node] = duration(t, arg(2))
	case "topic": // topic NAME MIN_ISR REPLICAS...
		var assignment [][]meta.NodeID
		for _, r := range words[3:] {
			assignment = append(assignment, ids(r))
		}
		w.topic(arg(1), atoi(t, arg(2)), assignment)
	case "controller": // controller NODE: a new one takes over
		w.core, w.next = newCore(w.opts, node, w.clock()), w.now
		w.core.skews = func() map[meta.NodeID]time.Duration { return w.skews }
	case "run": // run TIME: time passes
		w.run(duration(t, arg(1)))
	case "pause": // pause TIME: time passes, and the controller does not run
		w.now += duration(t, arg(1))
	case "follow": // leaders admit and remove replicas
		w.follow()
	case "isr": // isr TOPIC/PARTITION NODES
		id := at(t, arg(1))
		w.alter(id.Topic, id.Partition, ids(arg(2)))
	case "want": // want NODE [INTENT]
		w.apply(meta.SetNodeIntent{ID: node, Intent: meta.NodeIntent(arg(2))})
	case "set": // set KEY VALUE
		w.apply(meta.SetSettings{Values: map[string]string{arg(1): arg(2)}})
	case "show":
		w.show()
	default:
		ask(t, w, words[0], arg)
	}
}

// ask executes an operator's request.
func ask(t *testing.T, w *world, word string, arg func(int) string) {
	t.Helper()
	nodes := w.core.Conditions(&w.state)
	var c meta.Command
	var err error
	switch word {
	case "move": // move TOPIC/PARTITION NODES
		c, err = PlanMove(&w.state, nodes, w.opts, at(t, arg(1)), ids(arg(2)))
	case "cancel": // cancel TOPIC/PARTITION
		c, err = PlanCancel(&w.state, at(t, arg(1)))
	case "transfer": // transfer TOPIC/PARTITION [NODE [unclean]]
		var e meta.Election
		e, err = Transfer(&w.state, nodes, at(t, arg(1)), meta.NodeID(arg(2)), arg(3) == "unclean")
		c = meta.ElectLeaders{Elections: []meta.Election{e}}
	case "stop": // stop NODE: it transfers its leaderships and stops
		id := meta.NodeID(arg(1))
		c = meta.ElectLeaders{Elections: Handover(&w.state, nodes, id, reasonRestart)}
		w.nodes[id] = refuses
	case "check": // check NODE [stopping]: may it be drained?
		if err := CheckDrain(&w.state, nodes, meta.NodeID(arg(1)), arg(2) != ""); err != nil {
			w.printf("%v\n", err)
		}
		return
	case "plan": // plan N: what balance would move
		for _, m := range PlanBalance(&w.state, nodes, atoi(t, arg(1))) {
			w.printf("%s/%d from %s to %s\n", m.Topic, m.Partition, names(m.From), names(m.To))
		}
		return
	default:
		t.Fatalf("no word %q", word)
	}
	if err != nil {
		w.printf("refused: %v\n", err)
		return
	}
	w.print(c, w.apply(c))
}

func at(t *testing.T, text string) meta.PartitionID {
	t.Helper()
	topic, partition, _ := strings.Cut(text, "/")
	return meta.PartitionID{Topic: topic, Partition: atoi(t, partition)}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
