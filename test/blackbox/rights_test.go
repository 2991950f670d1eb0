package blackbox

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/rightstest"
	"github.com/brokerd/brokerd/test/nodes"
)

// TestRightsThroughAnotherNode asks every endpoint of a node, as every kind of user: a node that neither leads the topic
// nor created the users.
func TestRightsThroughAnotherNode(t *testing.T) {
	t.Parallel()
	lookups := map[string]string{}
	n := threeMachines(t, func(_ string, o *nodes.Options) {
		at, err := ports.Free(len(o.Nodes))
		if err != nil {
			t.Fatal(err)
		}
		for i := range o.Nodes {
			lookups["n"+string(rune('1'+i))] = at[i].HTTP
		}
		o.Args = []string{"--anonymous-lookup=false", "--pprof"}
		o.ArgsOf = func(id string) []string { return []string{"--lookup-address", lookups[id]} }
	})
	n.secured()
	n.ctl("topic create t --partitions 1 --replicas 1")
	n.ctl("topic create other --partitions 1 --replicas 1")
	n.ctl("channel create t/c")
	tokens := map[string]string{rightstest.Stranger: ""}
	for _, u := range rightstest.Users() {
		command := []string{"user create", u.Name}
		for _, r := range u.Rules {
			command = append(command, "--grant", "'"+r.String()+"'")
		}
		n.ctl(command...)
		n.ctl("token create", u.Name, "--out", u.Name+".token")
		tokens[u.Name] = n.secret(u.Name + ".token")
	}
	leader := n.ctl("topic describe t -o 'go-template={{range .partitions}}{{.leader}}{{end}}'")
	asked := n.Nodes[1]
	if asked.ID == strings.TrimSpace(leader) {
		asked = n.Nodes[2]
	}
	eventually(t, "the node knows the users", func() bool {
		r, err := httpAs(tokens["copy"], "http://"+asked.HTTP+"/v1/access/self", "GET", "")
		return err == nil && r.code == http.StatusOK
	})
	bases := map[rightstest.Address]string{rightstest.Node: "http://" + asked.HTTP, rightstest.Lookup: "http://" + lookups[asked.ID]}
	compareRights(t, bases, tokens)
}

// compareRights sends every request of rightstest as every caller: at first those that must be refused and change
// nothing.
func compareRights(t *testing.T, bases map[rightstest.Address]string, tokens map[string]string) {
	t.Helper()
	rows, err := rightstest.Rows()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute}
	for _, allowed := range []bool{false, true} {
		sent := 0
		for _, row := range rows {
			for caller, token := range tokens {
				if row.Allows(caller, rightstest.On) != allowed {
					continue
				}
				sent++
				status, text := requestOfRow(t, client, bases[row.Address], &row, token, allowed)
				if refused := status == http.StatusUnauthorized || status == http.StatusForbidden; refused == allowed {
					t.Errorf("%s of address %s as %s: %d %s", row.Pattern, row.Address, caller, status, text)
				}
			}
		}
		t.Logf("%d requests, to be let in: %v", sent, allowed)
	}
}

// measures are endpoints that take as long as the request says.
var measures = []string{"GET /debug/pprof/profile", "GET /debug/pprof/trace"}

// requestOfRow sends the request of a row. With dry, it changes nothing of the cluster.
func requestOfRow(t *testing.T, client *http.Client, base string, row *rightstest.Row, token string, dry bool) (status int, text string) {
	t.Helper()
	method, target, body := row.Request()
	u := base + target
	with := func(parameter string) {
		separator := "?"
		if strings.Contains(u, separator) {
			separator = "&"
		}
		u += separator + parameter
	}
	if dry && method != http.MethodGet && strings.HasPrefix(target, "/v1/") {
		with("dry_run=1") // an endpoint that knows no such parameter refuses it, and not with 403
	}
	if slices.Contains(measures, row.Pattern) {
		with("seconds=1")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, u, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer[:min(len(answer), 300)])
}
