package blackbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNodeJoinsByToken grows a cluster of three that requires join tokens, follows
// docs/operations/secure.md, and tries what must not work.
func TestNodeJoinsByToken(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t)
	dir := t.TempDir()
	ops, token := filepath.Join(dir, "ops.token"), filepath.Join(dir, "n4.join-token")
	first := filepath.Join(c.Nodes[0].Data(), "first-administrator")
	for _, args := range [][]string{{"user", "create", "ops", "--admin"}, {"token", "create", "ops", "--out", ops}} { // the secret is valid on one node
		if code, _, errs := run(t, "brokerctl", append([]string{"--addr", "http://" + addresses[0], "--token-file", first}, args...)...); code != 0 {
			t.Fatalf("%v: exit %d %s", args, code, errs)
		}
	}
	as := func(args ...string) string { t.Helper(); return ctl(append([]string{"--token-file", ops}, args...)...) }
	if code, _, _ := run(t, "brokerctl", "--addr", "http://"+addresses[0], "node", "join-token", "create", "n4"); code != 5 {
		t.Errorf("without an identity: exit code %d, want 5", code)
	}
	if out := as("node", "join-token", "list"); !strings.Contains(out, "join tokens are not required") {
		t.Errorf("list: %s", out)
	}
	as("node", "join-token", "require")
	as("node", "join-token", "create", "n4", "--expires", "1h", "--out", token)
	if about, err := os.Stat(token); err != nil || about.Mode().Perm() != 0o600 {
		t.Fatalf("token: %v, %v", about, err)
	}
	secret, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(id, want string, more ...string) {
		t.Helper()
		args := append([]string{
			"--node-id", id, "--data-dir", filepath.Join(dir, id+"-refused"), "--tcp-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
			"--lookup-address", "", "--cluster-address", "127.0.0.1:0", "--join", c.Nodes[1].Cluster,
		}, more...)
		if code, _, errs := run(t, "brokerd", args...); code != 78 || !strings.Contains(errs, want) || strings.Contains(errs, strings.TrimSpace(string(secret))) {
			t.Errorf("%s %v: exit code %d, want 78 and %q: %s", id, more, code, want, errs)
		}
	}
	refused("n4", "brokerctl node join-token create n4 --out FILE")
	refused("n5", "join token is for another node", "--join-token-file", token)
	refused("n4", "no such file", "--join-token-file", token+"-none")
	refused("n4", "it is a token of a user", "--join-token-file", ops)

	n4 := startNode(t, "--node-id", "n4", "--join", c.Nodes[2].Cluster, "--join-token-file", token)
	eventually(t, "n4 is a member", func() bool { return strings.Contains(as("node", "list", "-o", "name"), "n4") })
	n4.stop()
	refused("n4", "join token was already used", "--join-token-file", token)

	var list struct {
		Required bool
		Tokens   []struct{ ID, Node, State, Secret string }
	}
	if err := json.Unmarshal([]byte(as("node", "join-token", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tokens) != 1 || list.Tokens[0].Node != "n4" || list.Tokens[0].State != "used" || list.Tokens[0].Secret != "" || !list.Required {
		t.Errorf("list: %+v", list)
	}
	log := as("audit", "log", "-o", "wide")
	for _, want := range []string{"join-tokens/require", "create-join-token " + list.Tokens[0].ID + " for node n4", "JOIN", "join token " + list.Tokens[0].ID} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, log)
		}
	}
	events := as("events", "--object", "n5")
	if !strings.Contains(log, "403") || !strings.Contains(events, "join_refused") || !strings.Contains(events, "join token is for another node") {
		t.Errorf("a refused join is not in the audit log or in the events:\n%s%s", log, events)
	}
	if strings.Contains(log+events, strings.TrimSpace(string(secret))) {
		t.Error("the audit log contains the token")
	}
	as("node", "join-token", "create", "n6", "--out", token+"-6")
	if err := json.Unmarshal([]byte(as("node", "join-token", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	as("node", "join-token", "revoke", list.Tokens[1].ID)
	refused("n6", "join token is not valid", "--join-token-file", token+"-6")
	as("node", "join-token", "require", "--off")
	startNode(t, "--node-id", "n7", "--join", c.Nodes[0].Cluster)
	eventually(t, "n7 is a member", func() bool { return strings.Contains(as("node", "list", "-o", "name"), "n7") })
}
