package blackbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// supervise restarts nodes when files appear in a directory, like an init system, and returns the
// command that requests a restart.
func supervise(t *testing.T, c *nodes.Cluster) (command string) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, n := range c.Nodes {
				asked := filepath.Join(dir, n.ID)
				if _, err := os.Stat(asked); err != nil {
					continue
				}
				err := n.End(syscall.SIGTERM)
				if err == nil {
					err = n.Start()
				}
				if err != nil {
					t.Errorf("restart of %s: %v", n.ID, err)
				}
				_ = os.Remove(asked) // the requesting command waits for it
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return fmt.Sprintf("touch %[1]s/{{.Node}} && while [ -e %[1]s/{{.Node}} ]; do sleep 0.02; done", dir)
}

// A rolling restart under load restarts each node, one at a time. No acknowledged publish is lost,
// and no node is drained afterwards. If a command fails, the run stops, and the next run continues
// there.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t)
	ctl("topic", "create", "t", "--partitions", "3")
	ctl("channel", "create", "t/c")
	restart := supervise(t, c)
	incarnations := func() string {
		return ctl("node", "list", "-o", "go-template={{range .nodes}}{{.id}}={{.incarnation}}{{.intent}} {{end}}")
	}
	before := strings.Fields(incarnations())

	stop, published := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		defer func() { published <- count }()
		for {
			select {
			case <-stop:
				return
			default:
				publishTo(t, addresses, fmt.Sprintf("/pub?topic=t&partition=%d&dedup=m%d", count%3, count), fmt.Sprint(count))
				count++
			}
		}
	}()

	flags := []string{"--timeout", "5s", "--addr", "http://" + addresses[0]}
	if code, _, errs := run(t, "brokerctl", append(flags, "rolling", "restart", "--nodes", "n9", "--exec", restart)...); code != 3 {
		t.Errorf("of an unknown node: exit %d:\n%s", code, errs)
	}
	fails := "[ {{.Node}} != n2 ] && " + restart
	code, _, errs := run(t, "brokerctl", append(flags, "rolling", "restart", "--nodes", "n3,n2,n1", "--exec", fails)...)
	if code != 7 || !strings.Contains(errs, "stopped at node n2, step exec") || !strings.Contains(errs, "pending: n2,n1; to continue: brokerctl rolling restart --continue") {
		t.Errorf("exit %d:\n%s", code, errs)
	}
	code, _, errs = run(t, "brokerctl", append(flags, "rolling", "restart", "--nodes", "n3", "--exec", restart)...)
	if code != 4 || !strings.Contains(errs, "node n2 is still drained by a rolling restart") || !strings.Contains(errs, "rolling restart --continue --exec") {
		t.Errorf("beside one that stopped: exit %d:\n%s", code, errs)
	}
	code, _, errs = run(t, "brokerctl", append(flags, "rolling", "restart", "--exec", restart, "--nodes", "n2,n1")...)
	if code != 4 || !strings.Contains(errs, "node n2 is still drained") {
		t.Errorf("beside one that may be under way at the same node: exit %d:\n%s", code, errs)
	}
	killedRolling(t, flags, filepath.Join(t.TempDir(), "begun"))
	code, out, errs := run(t, "brokerctl", append(flags, "rolling", "restart", "--continue", "--exec", restart, "-o", "name")...)
	if code != 0 || out != "n2\nn1\n" {
		t.Errorf("exit %d: %s\n%s", code, out, errs)
	}
	close(stop)
	count := <-published

	for i, was := range before {
		if now := strings.Fields(incarnations())[i]; now == was || strings.Contains(now, "drain") {
			t.Errorf("%s, before the restart %s", now, was)
		}
	}
	depth := strings.TrimSpace(ctl("channel", "lag", "t/c", "-o", "go-template={{range .channels}}{{.depth}}{{end}}"))
	if depth != fmt.Sprint(count) {
		t.Errorf("%d messages were acknowledged, %s are there", count, depth)
	}
	if out := ctl("audit", "log", "-o", "json"); !strings.Contains(out, "rolling restart") {
		t.Errorf("audit log:\n%s", out)
	}
}

// killedRolling continues a run and kills it together with its command, which only records in a
// file that it was started.
func killedRolling(t *testing.T, flags []string, begun string) {
	t.Helper()
	hangs := "touch " + begun + " && exec sleep 1000"
	cmd := exec.Command(filepath.Join(programs, "brokerctl"), append(flags, "rolling", "restart", "--continue", "--exec", hangs)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command of the run is begun", func() bool { _, err := os.Stat(begun); return err == nil })
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// Two rolling restarts that begin at the same moment, as of a timer and an operator, choose the same
// first node. One of them restarts it, and comes to its end; never do two commands run at once.
func TestTwoRollingRestartsAtOnce(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t)
	ctl("topic", "create", "t", "--partitions", "3")
	var flags []string
	for _, a := range addresses {
		flags = append(flags, "--addr", "http://"+a)
	}
	lock := filepath.Join(t.TempDir(), "lock")
	command := fmt.Sprintf("mkdir %[1]s && %[2]s && rmdir %[1]s", lock, supervise(t, c))
	type result struct {
		code int
		errs string
	}
	results := make(chan result, 2)
	for range cap(results) {
		go func() {
			code, _, errs := run(t, "brokerctl", append(slices.Clone(flags), "rolling", "restart", "--exec", command)...)
			results <- result{code, errs}
		}()
	}
	ended := 0
	for range cap(results) {
		r := <-results
		switch {
		case r.code == 0:
			ended++
		case r.code != 7 && r.code != 4 || strings.Contains(r.errs, "step exec"):
			t.Errorf("exit %d:\n%s", r.code, r.errs)
		}
	}
	if ended == 0 {
		t.Error("neither run came to its end")
	}
	if left := ctl("node", "list", "-o", "go-template={{range .nodes}}{{.intent}}{{end}}"); strings.Contains(left, "drain") {
		t.Errorf("a node is still drained: %s", left)
	}
}
