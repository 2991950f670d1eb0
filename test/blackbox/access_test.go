package blackbox

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"
)

// status returns the status of a request without a credential.
func status(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // a short test
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// received passes on the bodies of messages.
type received chan string

// HandleMessage implements nsq.Handler.
func (r received) HandleMessage(m *nsq.Message) error {
	r <- string(m.Body)
	return nil
}

// TestAccessControlOnThreeNodes follows docs/operations/secure.md: the first administrator, a user
// with a token, unmodified NSQ clients, revoked rules and tokens, and a restarted node.
func TestAccessControlOnThreeNodes(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t, "--cluster-secret-file", clusterSecret(t))
	dir := t.TempDir()
	first, ops, billing := filepath.Join(c.Nodes[2].Data(), "first-administrator"), filepath.Join(dir, "ops"), filepath.Join(dir, "billing")
	firstOnly := func(args ...string) { // the secret is valid on one node
		t.Helper()
		code, _, errs := run(t, "brokerctl", append([]string{"--addr", "http://" + addresses[2], "--token-file", first}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d %s", args, code, errs)
		}
	}
	firstOnly("user", "create", "ops", "--admin")
	firstOnly("token", "create", "ops", "--out", ops)
	for _, n := range c.Nodes {
		eventually(t, "the secret of the first administrator is gone", func() bool {
			_, err := os.Stat(filepath.Join(n.Data(), "first-administrator"))
			return os.IsNotExist(err)
		})
	}
	as := func(args ...string) string { t.Helper(); return ctl(append([]string{"--token-file", ops}, args...)...) }
	refused := func(args ...string) {
		t.Helper()
		if code, _, _ := run(t, "brokerctl", append([]string{"--addr", "http://" + addresses[0]}, args...)...); code != 5 {
			t.Errorf("%v: exit %d, want 5", args, code)
		}
	}
	refused("access", "enable")
	as("access", "enable")
	refused("topic", "list")
	refused("--token-file", unknownToken(t, dir), "topic", "list")
	as("topic", "create", "orders", "--partitions", "3")
	as("user", "create", "billing", "--grant", "publish orders", "--grant", "subscribe orders/billing")
	as("token", "create", "billing", "--out", billing)
	secret, err := os.ReadFile(billing)
	if err != nil {
		t.Fatal(err)
	}

	config := nsq.NewConfig()
	config.AuthSecret = strings.TrimSpace(string(secret))
	config.LookupdPollInterval = 100 * time.Millisecond
	consumer, err := nsq.NewConsumer("orders", "billing", config)
	if err != nil {
		t.Fatal(err)
	}
	consumer.SetLoggerLevel(nsq.LogLevelMax)
	got := make(received, 10)
	consumer.AddHandler(got)
	if err := consumer.ConnectToNSQLookupds(addresses); err != nil {
		t.Fatal(err)
	}
	defer consumer.Stop()
	publish := func(node int, topic string) error {
		t.Helper()
		producer, err := nsq.NewProducer(c.Nodes[node].TCP, config)
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Stop()
		producer.SetLoggerLevel(nsq.LogLevelMax)
		return producer.Publish(topic, []byte("hello"))
	}
	for node := range c.Nodes { // whichever leads
		if err := publish(node, "orders"); err != nil {
			t.Fatalf("publish through node %d: %v", node, err)
		}
		select {
		case <-got:
		case <-time.After(patience):
			t.Fatal("no message")
		}
	}
	if err := publish(0, "others"); err == nil {
		t.Error("a publish without a rule was taken")
	}

	if err := c.Nodes[1].End(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/topics", "/stats", "/metrics", "/debug/pprof/", "/config/log_level"} {
		if got := status(t, "http://"+addresses[1]+path); got != http.StatusUnauthorized {
			t.Errorf("%s of a node that started again: %d", path, got)
		}
	}
	for _, path := range []string{"/ping", "/readyz", "/livez", "/lookup?topic=orders"} {
		if got := status(t, "http://"+addresses[1]+path); got != http.StatusOK {
			t.Errorf("%s: %d", path, got)
		}
	}

	as("acl", "revoke", "billing", "publish", "orders")
	for node := range c.Nodes {
		eventually(t, "the rule is gone", func() bool { return publish(node, "orders") != nil })
	}
	if text := as("channel", "describe", "orders/billing", "-o", "json"); !strings.Contains(text, `"client_id"`) {
		t.Fatalf("the consumer does not show: %s", text)
	}
	as("user", "delete", "billing", "--yes")
	eventually(t, "the consumer is disconnected", func() bool {
		return !strings.Contains(as("channel", "describe", "orders/billing", "-o", "json"), `"client_id"`)
	})
	if log := as("audit", "log", "-o", "json"); strings.Contains(log, config.AuthSecret) || !strings.Contains(log, `"identity":"ops"`) {
		t.Errorf("the audit log: %s", log)
	}
	as("access", "disable")
	ctl("topic", "list")
}

// unknownToken returns a file with a token that no user has.
func unknownToken(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "nothing")
	if err := os.WriteFile(file, []byte("brk_0123456789abcdef_"+strings.Repeat("A", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
