package blackbox

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clusterSecret returns a new file with a cluster secret.
func clusterSecret(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAccessControlNeedsAClosedClusterPort: any local user could join a node that listens on loopback, and
// be its administrator.
func TestAccessControlNeedsAClosedClusterPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, ops := filepath.Join(dir, "data"), filepath.Join(dir, "ops")
	n := startNodeOn(t, data)
	if !strings.Contains(n.logged(), "cluster port is open") {
		t.Error("the node does not say that its cluster port is open")
	}
	first := filepath.Join(data, "first-administrator")
	n.ctl(0, "--token-file", first, "user", "create", "ops", "--admin")
	n.ctl(0, "--token-file", first, "token", "create", "ops", "--out", ops)
	if out := n.ctl(4, "--token-file", ops, "access", "enable"); !strings.Contains(out, "brokerctl access enable --new-cluster-secret") {
		t.Errorf("refused with: %s", out)
	}
	if out := n.ctl(0, "--token-file", ops, "access", "status"); !strings.Contains(out, "access control is off") || !strings.Contains(out, "cluster port is open") {
		t.Errorf("status: %s", out)
	}
	secret := filepath.Join(data, "cluster-secret")
	if out := n.ctl(0, "--token-file", ops, "access", "enable", "--new-cluster-secret"); !strings.Contains(out, secret) {
		t.Errorf("enabled with: %s", out)
	}
	if about, err := os.Stat(secret); err != nil || about.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", about, err)
	}
	for range 2 {
		stranger := newNode(t, "brokerd", append(nodeArgs(filepath.Join(dir, "stranger")), "--node-id", "evil", "--access-recovery", "--join", n.address("CLUSTER"))...)
		stranger.launch()
		eventually(t, "the stranger is refused", func() bool { return strings.Contains(stranger.logged(), "presented no secret") })
		if _, err := os.Stat(filepath.Join(dir, "stranger", "first-administrator")); !os.IsNotExist(err) {
			t.Errorf("the stranger makes administrators: %v", err)
		}
		stranger.kill()
		if out := n.ctl(0, "--token-file", ops, "node", "list"); strings.Contains(out, "evil") {
			t.Errorf("nodes: %s", out)
		}
		n.stop() // the file is in use from then on
		n = startNodeOn(t, data)
		if strings.Contains(n.logged(), "cluster port is open") {
			t.Error("the cluster port is open again")
		}
	}
	copied := filepath.Join(dir, "copy")
	text, err := os.ReadFile(secret)
	if err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	startNode(t, "--node-id", "n2", "--cluster-secret-file", copied, "--join", n.address("CLUSTER"))
	eventually(t, "the node with the secret is a member", func() bool {
		return strings.Contains(n.ctl(0, "--token-file", ops, "node", "list", "-o", "name"), "n2")
	})
	if out := n.ctl(0, "--token-file", ops, "audit", "log", "-o", "json"); !strings.Contains(out, `"verb":"JOIN"`) || !strings.Contains(out, `"identity":"node n2"`) {
		t.Errorf("audit log: %s", out)
	}
}

// TestOpenClusterIsClosedOnAllNodes: one node alone cannot require a secret.
func TestOpenClusterIsClosedOnAllNodes(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t)
	ops := filepath.Join(t.TempDir(), "ops")
	first := filepath.Join(c.Nodes[0].Data(), "first-administrator")
	for _, args := range [][]string{{"user", "create", "ops", "--admin"}, {"token", "create", "ops", "--out", ops}} {
		if code, _, errs := run(t, "brokerctl", append([]string{"--addr", "http://" + addresses[0], "--token-file", first}, args...)...); code != 0 {
			t.Fatalf("%v: exit %d %s", args, code, errs)
		}
	}
	for _, args := range [][]string{{"access", "enable"}, {"access", "enable", "--new-cluster-secret"}} {
		code, _, errs := run(t, "brokerctl", append([]string{"--addr", "http://" + addresses[1], "--token-file", ops}, args...)...)
		if code != 4 || !strings.Contains(errs, "umask 077") || !strings.Contains(errs, "cluster-secret-file of each") {
			t.Errorf("%v: exit %d %s", args, code, errs)
		}
	}
	if out := ctl("cluster", "health"); !strings.Contains(out, "HEALTHY") {
		t.Errorf("afterwards: %s", out)
	}
}

// TestUnreachableJoinerStopsNoNode: a node that reached the cluster, but could not be reached, got a vote,
// and the node that had been alone refused publishes for good.
func TestUnreachableJoinerStopsNoNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNodeOn(t, filepath.Join(dir, "n1"))
	l, err := net.Listen("tcp", "127.0.0.1:0") // nothing answers there: it accepts no connection
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wrong := []string{"--node-id", "n2", "--advertise-cluster-address", l.Addr().String(), "--join", n.address("CLUSTER")}
	joiner := newNode(t, "brokerd", append(nodeArgs(filepath.Join(dir, "n2")), wrong...)...)
	joiner.launch()
	eventually(t, "it is listed with the reason", func() bool {
		out := n.ctl(0, "node", "list")
		return strings.Contains(out, "NOT REGISTERED") && strings.Contains(out, "no answer at "+l.Addr().String())
	})
	if _, out, _ := run(t, "brokerctl", "--addr", "http://"+n.address("HTTP"), "cluster", "health"); !strings.Contains(out, "member_unreachable") {
		t.Errorf("health: %s", out)
	}
	eventually(t, "the joiner says why", func() bool {
		return strings.Contains(joiner.logged(), "gets no answer from the node at its cluster address")
	})
	n.ctl(0, "topic", "create", "during")
	n.ctl(0, "message", "pub", "during", "one")
	if out := n.ctl(0, "cluster", "raft"); !strings.Contains(out, "1 voter") {
		t.Errorf("voters: %s", out)
	}
	joiner.kill()
	n.ctl(0, "node", "remove", "n2", "--yes")
	if out := n.ctl(0, "node", "list"); strings.Contains(out, "n2") {
		t.Errorf("removed, but listed: %s", out)
	}
	n.stop()
	n = startNodeOn(t, filepath.Join(dir, "n1"))
	n.ctl(0, "message", "pub", "during", "two")

	// With its right address it joins, and votes.
	began := time.Now()
	startNodeOn(t, filepath.Join(dir, "n2"), "--node-id", "n2", "--join", n.address("CLUSTER"))
	eventually(t, "it votes", func() bool { return strings.Contains(n.ctl(0, "cluster", "raft"), "2 voters") })
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it votes after %v", took)
	}
}
