package blackbox

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// An operator compares the settings of three nodes through any of them, and lets one log more for a
// time.
func TestSettingsAndLogLevelsOfThreeNodes(t *testing.T) {
	t.Parallel()
	c, _, ctl := threeNodes(t)
	if out := ctl("cluster", "config", "--differing"); out != "no setting differs between 3 nodes\n" {
		t.Errorf("%s", out)
	}
	for _, want := range []string{"disk-reserve", "n1,n2,n3", "default"} {
		if out := ctl("cluster", "config", "disk_reserve"); !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	n := c.Node("n2")
	level := func() string { t.Helper(); return strings.TrimSpace(ctl("node", "log-level", "n2", "-o", "name")) }
	logged := func(what string) bool {
		text, err := os.ReadFile(n.Log())
		return err == nil && strings.Contains(string(text), what)
	}
	if out := ctl("node", "log-level", "n2", "debug", "--for", "1h", "--reason", "night"); !strings.Contains(out, "n2 logs at debug for another") || level() != "debug" {
		t.Errorf("%s", out)
	}
	eventually(t, "the change is logged", func() bool { return logged("log level changed") })
	if out := ctl("audit", "log", "--object", "n2"); !strings.Contains(out, "/log-level") || !strings.Contains(out, "night") {
		t.Errorf("audit log:\n%s", out)
	}
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reload ends it", func() bool { return level() == "info" })
	ctl("node", "log-level", "n2", "debug", "--for", "1ms")
	eventually(t, "its time is over", func() bool { return level() == "info" })

	if err := n.End(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for exit, args := range map[int][]string{
		7: {"cluster", "config"},
		6: {"node", "log-level", "n2", "debug"},
		3: {"cluster", "config", "no-such-setting"},
		2: {"node", "log-level", "n1", "loud"},
	} {
		if code, out, errs := run(t, "brokerctl", append([]string{"--addr", "http://" + c.Node("n1").HTTP}, args...)...); code != exit {
			t.Errorf("%v: exit %d, want %d: %s%s", args, code, exit, out, errs)
		}
	}
	if code, _, errs := run(t, "brokerctl", "--addr", "http://"+c.Node("n1").HTTP, "node", "log-level", "n9", "debug"); code != 3 {
		t.Errorf("a node that does not exist: exit %d %s", code, errs)
	}
}
