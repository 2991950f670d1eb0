package blackbox

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hello is the first message of a node on the cluster port: docs/format/peer.md.
func hello(class byte, cluster, node string) []byte {
	body := []byte{1, 1, 0, 1, 0, class}
	body = append(body, make([]byte, 8+8+8+1+32)...)
	for _, s := range []string{cluster, node, "", "stranger"} {
		body = append(append(body, byte(len(s))), s...)
	}
	out := binary.LittleEndian.AppendUint16([]byte("BRKD"), uint16(len(body)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, body...)
}

// introduced sends a hello to a node and returns the connection and the first byte of the answer's
// body: 1 is a hello, 2 a refusal.
func introduced(t *testing.T, address string, said []byte) (net.Conn, byte) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(said); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(conn, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.LittleEndian.Uint16(head[4:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		t.Fatal(err)
	}
	return conn, body[0]
}

func clusterOf(t *testing.T, n *node) string {
	t.Helper()
	r, err := http.Get("http://" + n.address("HTTP") + "/v1/cluster")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var about struct {
		ID string `json:"cluster_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&about); err != nil || about.ID == "" {
		t.Fatalf("cluster %q, %v", about.ID, err)
	}
	return about.ID
}

func TestClusterPortRefusesStrangers(t *testing.T) {
	n := startNode(t)
	id := clusterOf(t, n)
	for _, cluster := range []string{"", id, "another"} {
		for _, class := range []byte("RDF") {
			if _, got := introduced(t, n.address("CLUSTER"), hello(class, cluster, "stranger")); got != 2 {
				t.Errorf("class %c, cluster %q: answered with %d", class, cluster, got)
			}
		}
	}
	for _, class := range []byte("PJ") { // open to everyone, for small requests
		conn, got := introduced(t, n.address("CLUSTER"), hello(class, "", "stranger"))
		if got != 1 {
			t.Fatalf("class %c: answered with %d", class, got)
		}
		frame := binary.LittleEndian.AppendUint32(nil, 63<<20)
		if _, err := conn.Write(append(frame, make([]byte, 14)...)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("class %c, a frame of 63 MiB: %v", class, err)
		}
	}
}

func TestOpenClusterPortNeedsSetting(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	short := filepath.Join(t.TempDir(), "short")
	for path, text := range map[string]string{secret: "correct horse battery staple\n", short: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		n := newNode(t, "brokerd", append([]string{
			"--data-dir", t.TempDir(), "--node-id", "n1", "--tcp-address", "127.0.0.1:0", "--http-address", "",
			"--lookup-address", "", "--cluster-address", "0.0.0.0:0", "--log-format", "json",
		}, args...)...)
		n.launch()
		if code := n.wait(); code != 78 || !strings.Contains(n.logged(), want) {
			t.Errorf("%v: ended with %d\n%s", args, code, n.logged())
		}
	}
	refused("configure the same cluster-secret-file on all nodes")
	refused("a secret needs at least 16", "--cluster-secret-file", short)
	refused("no such file", "--cluster-secret-file", short+"er")
	for _, args := range [][]string{{"--insecure-cluster"}, {"--cluster-secret-file", secret}} {
		n := startNode(t, append(args, "--cluster-address", "0.0.0.0:0")...)
		_, port, err := net.SplitHostPort(n.address("CLUSTER"))
		if err != nil {
			t.Fatal(err)
		}
		want := byte(1)
		if args[0] == "--cluster-secret-file" {
			want = 2
		}
		if _, got := introduced(t, "127.0.0.1:"+port, hello('J', "", "stranger")); got != want {
			t.Errorf("%v: a stranger's hello is answered with %d", args, got)
		}
	}
}

func TestNodesWithASecretFormACluster(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := startNode(t, "--cluster-secret-file", secret)
	second := startNodeOn(t, t.TempDir(), "--node-id", "n2", "--cluster-secret-file", secret, "--join", first.address("CLUSTER"))
	if a, b := clusterOf(t, first), clusterOf(t, second); a != b {
		t.Errorf("two clusters, %s and %s", a, b)
	}
}
