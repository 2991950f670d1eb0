package blackbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/test/nodes"
)

// The clock of one node is two hours ahead. Its time service is started again, and sets it.
func TestNightAClockIsWrong(t *testing.T) {
	program := filepath.Join(t.TempDir(), "brokerd")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "fakeclock", "-o", program, "../../cmd/brokerd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a broker whose clock can be set: %v\n%s", err, out)
	}
	n := newNight(t, "clock-skew", func(_ string, o *nodes.Options) { o.Program = program })
	clock := filepath.Join(n.dir, "clock")
	n.Node("n1").Env = []string{"FAKECLOCK=" + clock}
	n.systemctl = func(node, verb, unit string) (string, error) {
		if unit == "chrony" && verb == "restart" && node == "n1" {
			return "", os.Remove(clock)
		}
		return n.service(node, verb, unit)
	}
	n.ctl("topic create orders --partitions 3 --replicas 3 --min-isr 2 --ttl 1h")
	n.ctl("channel create orders/invoice")
	n.ctl("message pub orders one two three")
	if err := os.WriteFile(clock, []byte("2h"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.service("n1", "restart", "brokerd"); err != nil {
		t.Fatal(err)
	}
	n.shows(`clock_skew .* the clock is 2h ahead of those of most nodes.*on n1`)
	eventually(t, "n1 leads nothing", func() bool {
		return !strings.Contains(n.ctl("partition list -o json"), `"leader": "n1"`) && !strings.Contains(n.ctl("partition list -o json"), `"leader":"n1"`)
	})
	n.next()
	n.shows(healthy)
	n.cured()
	if got := strings.TrimSpace(n.ctl("channel lag orders/invoice -o 'go-template={{range .channels}}{{.depth}}{{end}}'")); got != "3" {
		t.Errorf("%s of 3 messages wait", got)
	}
}
