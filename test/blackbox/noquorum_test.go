package blackbox

import (
	"strings"
	"testing"
	"time"
)

// Two of three machines hang. What cannot be done without the metadata is refused, also when it is only tried out, within
// the time that brokerctl waits: an operator who gets no answer has to assume that it was done.
func TestChangesWithoutAQuorumAreRefused(t *testing.T) {
	t.Parallel()
	n := threeMachines(t, nil)
	n.secured()
	n.topic("one", "two", "three")
	at := "--addr http://" + n.Node("n2").HTTP + " "
	for _, id := range []string{"n1", "n3"} {
		x := n.Node(id)
		if err := x.Pause(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Resume() }) // it may have ended
	}
	eventually(t, "n2 has no leader", func() bool {
		out, _ := n.shell("brokerctl " + at + "node drain n1 --dry-run")
		return strings.Contains(out, "no metadata leader for")
	})
	for command, says := range map[string]string{
		"channel empty orders/invoice --yes":               "channel orders/invoice not emptied, it keeps its position and its messages: cannot save its position",
		"channel delete orders/invoice --yes":              "channel orders/invoice not deleted, it keeps its position and its messages: cannot save its position",
		"channel skip orders/invoice --partition 0 --to 0": "channel orders/invoice not moved: cannot save its position",
		"channel seek orders/invoice --to end --yes":       "channel orders/invoice not moved: cannot save its position",
		"channel seek orders/invoice --to end --dry-run":   "channel orders/invoice not moved: cannot save its position",
		"channel empty orders/invoice --dry-run":           "no metadata leader for",
		"channel delete orders/invoice --dry-run":          "no metadata leader for",
		"topic delete orders --dry-run":                    "no metadata leader for",
		"topic delete orders --yes":                        "no metadata leader",
	} {
		began := time.Now()
		out, err := n.shell("brokerctl " + at + command)
		if exitCode(err) != 6 || !strings.Contains(out, says) {
			t.Errorf("%s, after %v: %v\n%s", command, time.Since(began), err, out)
		}
	}
}
