package blackbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestChecksReportProblems runs the checks like a monitoring program: on a healthy cluster, with an
// expiring certificate, with waiting messages, with a dead node, and with no node running.
func TestChecksReportProblems(t *testing.T) {
	authority := newAuthority(t)
	authority.issue("server", authority) // valid for an hour
	n := startNode(t, "--tls-cert", authority.path("server.pem"), "--tls-key", authority.path("server.key"))
	other := startNode(t, "--node-id", "n2", "--join", n.address("CLUSTER"))
	third := startNode(t, "--node-id", "n3", "--join", n.address("CLUSTER"))
	address := "http://" + n.address("HTTP")
	check := func(args ...string) (int, string) {
		t.Helper()
		code, out, stderr := run(t, "brokerctl", slices.Concat([]string{"--addr", address, "check"}, args)...)
		if code > 3 {
			t.Errorf("check %v ended with %d: %s", args, code, stderr)
		}
		return code, out
	}
	brokerctl := func(args ...string) {
		t.Helper()
		if code, _, stderr := run(t, "brokerctl", append([]string{"--addr", address}, args...)...); code != 0 {
			t.Fatalf("brokerctl %v: %d %s", args, code, stderr)
		}
	}
	line := regexp.MustCompile(`^BROKERD ([A-Z]+) (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+( \| '[^']+'=.*)?\n`)
	wants := func(code int, summary string, args ...string) {
		t.Helper()
		got, out := check(args...)
		if got != code || !strings.Contains(out, summary) || args[0] != "node" && !line.MatchString(out) {
			t.Errorf("check %v: %d, want %d with %q:\n%s", args, got, code, summary, out)
		}
	}
	eventually(t, "three nodes vote and are well", func() bool {
		code, out := check("raft")
		well, _ := check("cluster")
		return code == 0 && well == 0 && strings.Contains(out, "3 voters, tolerates 1 failure")
	})
	wants(0, "3 of 3 nodes up, healthy", "cluster")
	wants(0, "ready", "node")
	wants(0, "free on 3 nodes", "disk")
	wants(1, "free, less than 900TiB", "disk", "--warn-free", "900TiB")
	wants(2, " server certificate expires in ", "cert")
	wants(0, "valid for ", "cert", "--warn", "1m", "--crit", "1s")

	brokerctl("topic", "create", "orders")
	brokerctl("channel", "create", "orders/bill")
	wants(0, "orders/bill: 0 messages wait", "channel", "orders/bill", "--max-lag", "1", "--max-age", "1h")
	brokerctl("message", "pub", "orders", "a", "b")
	wants(1, "orders/bill has no consumer, 2 messages wait", "channel", "orders/bill")
	wants(2, "orders/bill: 2 messages wait, more than 1", "channel", "orders/bill", "--max-lag", "1", "--max-age", "1h")
	wants(2, "not found", "channel", "orders/none")

	third.kill()
	eventually(t, "the death of a node is a warning", func() bool {
		code, out := check("cluster")
		return code == 1 && strings.Contains(out, "nodes_down: ")
	})
	wants(1, "if one more voter fails", "raft")
	wants(3, "n3: is down", "disk")
	other.kill()
	eventually(t, "the loss of the quorum is critical", func() bool {
		code, _ := check("cluster")
		agreed, out := check("raft")
		return code == 2 && agreed == 2 && strings.Contains(out, "voters missing: 1")
	})
	n.kill()
	wants(2, "connect: connection refused", "cluster")
	wants(2, "connect: connection refused", "disk")
	if code, _ := check("node"); code != 2 {
		t.Errorf("check node of a node that is gone: %d", code)
	}
}
