package blackbox

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/test/nodes"
)

// TestClientCertificatesAreIdentities connects to three nodes over TCP and HTTPS with verified
// client certificates and no other credential: as an administrator, as a program, and with a
// certificate of no user.
func TestClientCertificatesAreIdentities(t *testing.T) {
	t.Parallel()
	by := newAuthority(t)
	for _, name := range []string{"server", "ops", "billing", "stranger"} {
		by.issue(name, by)
	}
	https := map[string]string{}
	n := threeMachines(t, func(_ string, o *nodes.Options) {
		for i := range o.Nodes {
			at, err := ports.Free(1)
			if err != nil {
				t.Fatal(err)
			}
			https["n"+string(rune('1'+i))] = at[0].HTTP
		}
		o.Args = []string{
			"--tls-cert", by.path("server.pem"), "--tls-key", by.path("server.key"), "--tls-root-ca-file", by.path("ca.pem"),
			"--tls-client-auth-policy", "require-verify",
		}
		o.ArgsOf = func(id string) []string { return []string{"--https-address", https[id]} }
	})
	as := func(name, command string) (string, error) {
		t.Helper()
		return n.shell("unset BROKERCTL_ADDR; brokerctl --addr https://" + https["n1"] + " --cacert " + by.path("ca.pem") +
			" --cert " + by.path(name+".pem") + " --key " + by.path(name+".key") + " " + command)
	}
	must := func(name, command string) string {
		t.Helper()
		out, err := as(name, command)
		if err != nil {
			t.Fatalf("%s: %s: %v\n%s", name, command, err, out)
		}
		return out
	}
	first := filepath.Join(n.Node("n1").Data(), "first-administrator")
	must("ops", "--token-file "+first+" user create ops --admin --certificate ops")
	eventually(t, "the first administrator's secret is gone", func() bool { _, err := os.Stat(first); return os.IsNotExist(err) })
	if out := must("ops", "access whoami"); !strings.Contains(out, "user ops: admin") {
		t.Errorf("whoami: %s", out)
	}
	must("ops", "access enable")
	must("ops", "topic create orders --partitions 3 --replicas 3")
	must("ops", "user create billing --certificate billing --grant 'publish orders'")
	if out, err := as("stranger", "topic list"); err == nil || err.Error() != "exit status 5" {
		t.Errorf("a stranger: %v\n%s", err, out)
	}
	if out, err := as("billing", "topic list"); err == nil || err.Error() != "exit status 5" {
		t.Errorf("a publisher reads: %v\n%s", err, out)
	}

	dial := func(node, name string) *wire {
		t.Helper()
		conn, err := net.Dial("tcp", n.Node(node).TCP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		w := &wire{t: t, Conn: conn}
		w.send("  V2")
		w.negotiate(`{"feature_negotiation":true,"tls_v1":true}`)
		if err := w.encrypt(by.client(name)); err != nil {
			t.Fatal(err)
		}
		return w
	}
	var open []*wire
	for _, x := range n.Nodes {
		w := dial(x.ID, "billing")
		w.send(pub("orders", "x"))
		w.ok()
		w.send(pub("others", "x"))
		w.fails("E_UNAUTHORIZED")
		open = append(open, dial(x.ID, "billing"))
		w = dial(x.ID, "stranger")
		w.send(pub("orders", "x"))
		w.fails("E_AUTH_FAILED") // the certificate is presented, and belongs to no user

		for name, want := range map[string]int{"billing": http.StatusOK, "stranger": http.StatusUnauthorized} {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: by.client(name)}, Timeout: patience}
			resp, err := client.Post("https://"+https[x.ID]+"/pub?topic=orders", "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s publishes over HTTPS: %d, want %d", name, resp.StatusCode, want)
			}
			if resp, err = client.Get("https://" + https[x.ID] + "/metrics"); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				t.Errorf("%s reads metrics", name)
			}
		}
		if _, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: by.client("")}, Timeout: patience}).Get("https://" + https[x.ID] + "/ping"); err == nil {
			t.Error("a client without a certificate is let in")
		}
	}
	must("ops", "user delete billing --yes")
	for _, w := range open {
		eventually(t, "the certificate counts no more", func() bool { // once its node has applied the change
			_, err := w.Write([]byte(pub("orders", "x")))
			if err != nil {
				return true
			}
			kind, _, err := w.next(patience)
			return err != nil || kind == frameError
		})
	}
	if log := must("ops", "audit log -o json"); !strings.Contains(log, `"identity":"ops"`) {
		t.Errorf("the audit log: %s", log)
	}
}

// TestNoAdministratorByAnUnverifiedCertificate: if listeners do not verify certificates, an
// administrator whose only credential is a certificate cannot log in, and access control cannot be
// switched on.
func TestNoAdministratorByAnUnverifiedCertificate(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data)
	first := filepath.Join(data, "first-administrator")
	n.ctl(0, "--token-file", first, "user", "create", "ops", "--admin", "--certificate", "ops")
	out := n.ctl(4, "--token-file", first, "access", "enable")
	if !strings.Contains(out, "tls-client-auth-policy") {
		t.Errorf("enabled, or refused with: %s", out)
	}
	n.ctl(0, "--token-file", first, "token", "create", "ops", "--out", filepath.Join(data, "..", "ops.token"))
	eventually(t, "the secret is gone", func() bool { _, err := os.Stat(first); return os.IsNotExist(err) })
	n.ctl(0, "--token-file", filepath.Join(data, "..", "ops.token"), "access", "enable", "--new-cluster-secret")
}
