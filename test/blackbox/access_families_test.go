package blackbox

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/test/nodes"
)

// TestEachFamilyOfCommandsWithAccessControl runs a command of each family on three nodes with
// access control on. The required right suffices; without any right the command is refused with
// exit code 5.
func TestEachFamilyOfCommandsWithAccessControl(t *testing.T) {
	t.Parallel()
	n := threeMachines(t, func(_ string, o *nodes.Options) {
		o.Args = []string{"--anonymous-lookup=false", "--pprof"}
	})
	n.topic("one", "two", "three")
	n.secured()
	for user, rules := range map[string]string{
		"reads": "--grant read", "publishes": "--grant 'publish orders'", "subscribes": "--grant 'subscribe orders/invoice'",
		"manages": "--grant 'manage orders*'", "looks": "--grant read --grant 'subscribe orders'", "runs": "--grant read --grant 'manage orders*'",
		"replays": "--grant read --grant 'subscribe *' --grant 'publish copies' --grant 'manage copies'", "nothing": "",
	} {
		n.ctl("user create", user, rules)
		n.ctl("token create", user, "--out", user+".token")
	}
	n.ctl("topic create copies --partitions 1 --replicas 3")
	message := strings.Fields(n.ctl("message peek orders/invoice -n 1 -o name"))[0]
	restart := supervise(t, n.Cluster)
	as := func(user, command string) (string, error) {
		t.Helper()
		return n.shell("unset BROKERCTL_TOKEN; brokerctl --token-file " + user + ".token " + command)
	}
	for _, step := range []struct{ user, command string }{
		{"reads", "cluster health -q"},
		{"reads", "cluster info"},
		{"reads", "node list"},
		{"reads", "node describe n1"},
		{"reads", "topic list"},
		{"reads", "topic describe orders"},
		{"reads", "channel list"},
		{"reads", "channel lag"},
		{"reads", "channel explain orders/invoice"},
		{"reads", "partition list"},
		{"reads", "partition verify orders"},
		{"reads", "dlq list"},
		{"reads", "audit log"},
		{"reads", "events"},
		{"reads", "check cluster"},
		{"reads", "check raft"},
		{"reads", "check disk"},
		{"reads", "check cert"},
		{"reads", "check channel orders/invoice --min-consumers 0 --max-lag 100"},
		{"reads", "version --check-skew"},
		{"reads", "top --once"},
		{"publishes", "message pub orders four"},
		{"publishes", "message pub orders --delay 1h later"},
		{"subscribes", "message peek orders/invoice"},
		{"subscribes", "message deferred orders/invoice"},
		{"looks", "message get MESSAGE --topic orders"},
		{"replays", "message copy MESSAGE --topic orders --to copies"},
		{"runs", "message finish MESSAGE --topic orders --channel invoice"},
		{"looks", "message tail orders/invoice -n 1"}, // it searches where the messages are,
		{"looks", "message export orders -f exported"},
		{"manages", "channel pause orders/invoice"},
		{"manages", "channel resume orders/invoice"},
		{"manages", "channel alter orders/invoice --max-attempts 5"},
		{"manages", "dlq redrive orders/invoice --dry-run"},
		{"manages", "topic alter orders --retention-trash 1h"},
		{"manages", "topic create orders2 --partitions 1"},
		{"manages", "topic delete orders2 --yes"},
		{"runs", "channel empty orders/invoice --yes"},
		{"runs", "channel undo orders/invoice"},
		{"runs", "topic restore orders2"},
		{"replays", "message import copies -f exported"},
		{"ops", "backup create backups"},
		{"ops", "backup restore backups --topic orders --as restored"},
		{"ops", "snapshot save metadata"},
		{"reads", "cluster balance"},
		{"ops", "partition transfer orders/0 --to n2"},
		{"ops", "node drain n3 --wait"},
		{"ops", "node undrain n3"},
		{"ops", "cluster config --differing"},
		{"ops", "node log-level n2 debug --for 1m"},
		{"reads", "topic export > settings.yaml"},
		{"ops", "topic import settings.yaml"},
		{"ops", "partition move orders/0 --replicas n3,n2,n1 --yes --wait"},
		{"ops", "node join-token list"},
		{"ops", "user list"},
		{"ops", "acl list"},
		{"ops", "token list"},
		{"ops", "access status"},
		{"ops", "rolling restart --exec '" + restart + "'"},
	} {
		step.command = strings.ReplaceAll(step.command, "MESSAGE", message)
		out, err := as("nothing", step.command)
		refused := err != nil && (err.Error() == "exit status 5" || strings.HasPrefix(step.command, "check "))
		if !refused || !strings.Contains(out, "not permitted") {
			t.Errorf("a user without a rule: %s: %v\n%s", step.command, err, out)
		}
		if out, err := as(step.user, step.command); err != nil {
			t.Errorf("%s: %s: %v\n%s", step.user, step.command, err, out)
		}
	}
	if out, err := as("nothing", "debug bundle little.tar.gz"); err == nil || err.Error() != "exit status 5" || !strings.Contains(out, "not permitted") {
		t.Errorf("a bundle for a user without a rule: %v\n%s", err, out)
	}
	if out, err := as("ops", "debug bundle bundle.tar.gz"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if found, err := filepath.Glob(filepath.Join(n.dir, "backups", "*")); err != nil || len(found) == 0 {
		t.Errorf("no backup: %v", err)
	}
}

// TestEachInterfaceWithAccessControl calls each kind of HTTP endpoint on each node: without a
// credential, with a user without the right, and with one that has it.
func TestEachInterfaceWithAccessControl(t *testing.T) {
	t.Parallel()
	n := threeMachines(t, func(_ string, o *nodes.Options) {
		o.Args = []string{"--anonymous-lookup=false", "--pprof"}
	})
	n.topic("one")
	n.secured()
	tokens := map[string]string{"": "", "ops": n.secret("ops.token")}
	for user, rules := range map[string]string{
		"reads": "--grant read", "publishes": "--grant 'publish orders'", "manages": "--grant 'manage orders'", "nothing": "",
	} {
		n.ctl("user create", user, rules)
		n.ctl("token create", user, "--out", user+".token")
		tokens[user] = n.secret(user + ".token")
	}
	for _, x := range n.Nodes {
		ask := func(user, method, url, body string) int {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if user != "" {
				r.Header.Set("Authorization", "Bearer "+tokens[user])
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		for _, e := range []struct{ user, method, url, body string }{
			{"reads", "GET", x.HTTP + "/v1/cluster", ""},
			{"reads", "GET", x.HTTP + "/v1/topics/orders", ""},
			{"reads", "GET", x.HTTP + "/stats?format=json", ""},
			{"reads", "GET", x.HTTP + "/metrics", ""},
			{"reads", "GET", x.HTTP + "/topics", ""},
			{"publishes", "POST", x.HTTP + "/pub?topic=orders", "x"},
			{"publishes", "POST", x.HTTP + "/mpub?topic=orders", "x\ny"},
			{"publishes", "POST", x.HTTP + "/v1/topics/orders/messages", `{"messages":[{"body":"eA=="}]}`},
			{"manages", "POST", x.HTTP + "/channel/create?topic=orders&channel=c", ""},
			{"manages", "POST", x.HTTP + "/channel/pause?topic=orders&channel=c", ""},
			{"manages", "POST", x.HTTP + "/channel/empty?topic=orders&channel=c", ""},
			{"ops", "GET", x.HTTP + "/debug/pprof/", ""},
			{"ops", "GET", x.HTTP + "/config/log_level", ""},
			{"ops", "GET", x.HTTP + "/v1/diagnosis", ""},
			{"publishes", "GET", x.Lookup + "/lookup?topic=orders", ""},
			{"publishes", "GET", x.Lookup + "/nodes", ""},
			{"reads", "GET", x.Lookup + "/topics", ""},
			{"manages", "POST", x.Lookup + "/channel/create?topic=orders&channel=d", ""},
		} {
			if got := ask("", e.method, e.url, e.body); got != http.StatusUnauthorized {
				t.Errorf("without credentials: %s %s: %d", e.method, e.url, got)
			}
			anybody := strings.HasSuffix(e.url, "/lookup?topic=orders") || strings.HasSuffix(e.url, "/nodes")
			if got := ask("nothing", e.method, e.url, e.body); got != http.StatusForbidden && !anybody {
				t.Errorf("a user without a rule: %s %s: %d", e.method, e.url, got)
			}
			if got := ask(e.user, e.method, e.url, e.body); got != http.StatusOK && got != http.StatusCreated {
				t.Errorf("%s: %s %s: %d", e.user, e.method, e.url, got)
			}
		}
	}
	if got := n.depth(); got != "13" {
		t.Errorf("%s messages, want those of the users who may publish", got)
	}
}
