package blackbox

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// secured makes an administrator, whose token the operator's shell has from then on, and switches access control on.
func (n *night) secured() {
	n.Helper()
	first := filepath.Join(n.Node("n1").Data(), "first-administrator")
	at := "--addr http://" + n.Node("n1").HTTP + " --token-file " + first
	n.ctl(at, "user create ops --admin")
	n.ctl(at, "token create ops --out ops.token")
	n.token = n.secret("ops.token")
	n.env = []string{"BROKERCTL_TOKEN=" + n.token}
	n.ctl("access enable")
	for _, node := range n.Nodes { // all have applied it
		if r, err := httpAs("", "http://"+node.HTTP+"/v1/topics", "GET", ""); err != nil || r.code != http.StatusUnauthorized {
			n.Errorf("%s after access control was enabled: %d, %v", node.ID, r.code, err)
		}
	}
}

// posts sends a body to a path of the first node, with the administrator's token.
func (n *night) posts(path, body string) (reply, error) {
	return httpAs(n.token, "http://"+n.Nodes[0].HTTP+path, "POST", body)
}

// secret is the token in a file.
func (n *night) secret(file string) string {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, file))
	if err != nil {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// authenticated is a connection to a node that has sent a token with AUTH.
func (n *night) authenticated(node, token string) *wire {
	n.Helper()
	conn, err := net.Dial("tcp", n.Node(node).TCP)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = conn.Close() })
	w := &wire{t: n.T, Conn: conn}
	w.send("  V2AUTH\n" + sized(token))
	return w
}

// A token of a program is stolen, and the thief deletes a topic with it. The operator finds out what
// was done and from where, replaces and revokes the token, and brings the topic back.
func TestNightATokenIsStolen(t *testing.T) {
	n := newNight(t, "token-stolen", nil)
	n.topic("one", "two", "three")
	n.ctl("topic create invoices --partitions 3 --replicas 3")
	n.ctl("user create billing --grant 'publish orders' --grant 'subscribe invoices/*' --grant 'manage orders'")
	n.ctl("token create billing --out billing.token")
	stolen := n.secret("billing.token")

	var intruders []*wire
	for _, node := range []string{"n1", "n2", "n3"} { // a consumer and a publisher on each node
		for _, first := range []string{"SUB invoices spy\n", pub("orders", "junk")} {
			w := n.authenticated(node, stolen)
			w.response()
			w.send(first)
			w.ok()
			intruders = append(intruders, w)
		}
	}
	if out, err := n.shell("BROKERCTL_TOKEN=" + stolen + " brokerctl topic delete orders --yes"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	n.words["USER"], n.words["FILE"], n.words["TOPIC"] = "billing", "billing-2.token", "orders"
	n.shows(`(?m)billing 127\.0\.0\.1:\d+ +DELETE /v1/topics/orders`)
	n.words["ID"] = n.shows(`(?m)^([0-9a-f]{16}) +billing `)[1]
	n.next()
	n.next()
	for i, w := range intruders {
		publishes := i%2 == 1
		if publishes {
			_, _ = w.Write([]byte(pub("orders", "more"))) // the connection may have ended
		}
		for {
			kind, data, err := w.next(patience)
			if err != nil {
				break
			}
			if kind == frameResponse && data == "OK" && publishes {
				t.Errorf("connection %d publishes with a token that is revoked", i)
			}
		}
	}
	for _, x := range n.Nodes {
		out, err := n.shell("BROKERCTL_TOKEN=" + stolen + " brokerctl --addr http://" + x.HTTP + " topic list")
		if err == nil || strings.Contains(out, stolen) {
			t.Errorf("%s takes the token: %s", x.ID, out)
		}
		n.authenticated(x.ID, stolen).fails("E_AUTH_FAILED")
	}
	n.shows(`(?m)^orders `)
	n.next()
	if got := n.depth(); got != "6" {
		t.Errorf("%s messages, want 3 and those of the intruder", got)
	}
	w := n.authenticated("n3", n.secret("billing-2.token"))
	w.response()
	w.send(pub("orders", "four"))
	w.ok()
	if out := n.ctl("audit log -o json") + n.ctl("token list -o json"); strings.Contains(out, stolen[len(stolen)-20:]) {
		t.Error("the audit log has the secret of the token")
	}
	for _, x := range n.Nodes {
		if log, err := os.ReadFile(x.Log()); err != nil || strings.Contains(string(log), stolen[len(stolen)-20:]) {
			t.Errorf("the log of %s has the secret of the token, or cannot be read: %v", x.ID, err)
		}
	}
	n.cured()
}

// A flood of wrong logins, by Basic and by AUTH, is limited and counted, fills no log, and locks out no
// other user.
func TestFloodOfLoginsIsLimited(t *testing.T) {
	t.Parallel()
	n := threeMachines(t, nil)
	n.topic("one")
	n.secured()
	token := n.secret("ops.token")
	target := n.Node("n2")
	const attempts = 200
	var mu sync.Mutex
	codes := map[int]int{}
	var flood sync.WaitGroup
	for i := range 4 {
		flood.Go(func() {
			for j := range attempts / 4 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+target.HTTP+"/v1/topics", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				r.SetBasicAuth("ops", fmt.Sprintf("guess-%d-%d", i, j))
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				mu.Lock()
				codes[resp.StatusCode]++
				mu.Unlock()
			}
		})
		flood.Go(func() {
			for range attempts / 4 {
				n.authenticated(target.ID, "brk_0123456789abcdef_"+strings.Repeat("A", 43)).fails("E_AUTH_FAILED")
			}
		})
	}
	flood.Wait()
	if codes[429] < attempts/2 || codes[401]+codes[429]+codes[503] != attempts {
		t.Errorf("answers by their codes: %v", codes)
	}
	out, err := n.shell("BROKERCTL_TOKEN=" + token + " brokerctl --addr http://" + target.HTTP + " topic list -o name")
	if err != nil || out != "orders\n" {
		t.Errorf("a good token is refused meanwhile: %v %s", err, out)
	}
	metrics, err := n.shell("curl -sf -H 'Authorization: Bearer " + token + "' http://" + target.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, m := range regexp.MustCompile(`(?m)^brokerd_auth_failures_total\{protocol="(?:tcp|http)"\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		v, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		counted += v
	}
	if counted < 2*attempts {
		t.Errorf("%d failures are counted, there were %d", counted, 2*attempts)
	}
	log, err := os.ReadFile(target.Log())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(log), "authorization failed") + strings.Count(string(log), "refused by access control")
	if lines == 0 || lines > 40 {
		t.Errorf("the log has %d lines about the %d failures", lines, 2*attempts)
	}
	if strings.Contains(string(log), "guess-") {
		t.Error("the log has passwords")
	}
}
