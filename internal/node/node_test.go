package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// testNode returns the configuration of a real node without clients.
func testNode(t *testing.T) Config {
	t.Helper()
	o := config.Default()
	o.NodeID, o.DataDir = "n1", t.TempDir()
	return Config{
		Options: o, Advertise: config.Advertise{TCP: "127.0.0.1:1", HTTP: "127.0.0.1:2", Cluster: "127.0.0.1:3"},
		Listeners: &Listeners{}, Log: slog.New(slog.DiscardHandler), Version: "1.3.0",
		Certificates: func() []metrics.Certificate {
			return []metrics.Certificate{{Usage: "server", NotAfter: time.Unix(2e9, 0)}}
		},
		Disk: vfs.OS{}, Lookupds: &Lookupds{}, Level: new(slog.LevelVar),
	}
}

func openTestNode(t *testing.T) *Node {
	t.Helper()
	n, err := Open(t.Context(), testNode(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestJoiningNodeWaitsAndReportsIt(t *testing.T) {
	c := testNode(t)
	c.Options.Cluster.Join = []string{"127.0.0.1:4"}
	web, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listeners.HTTP = []net.Listener{web}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		n, err := Open(ctx, c)
		if n != nil {
			err = errors.Join(errors.New("opened without the others"), n.Close())
		}
		opened <- err
	}()
	r, err := http.Get("http://" + web.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); r.StatusCode != http.StatusServiceUnavailable || err != nil {
		t.Errorf("%s %s %v", r.Status, body, err)
	}
	cancel()
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAlertsUseExportedMetrics(t *testing.T) {
	n := openTestNode(t)
	if _, err := n.broker.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{MaxBytes: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if err := n.broker.Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	exported := map[string]bool{}
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			name, _, _ := strings.Cut(strings.Fields(line)[0], "{")
			exported[name] = true
			exported[strings.TrimSuffix(name, "_count")] = true // a histogram or summary is exported without the suffix
		}
	}
	// Metrics about other nodes, and about spans if none are sent, are absent: tests of pkg/metrics
	// check them.
	metric := regexp.MustCompile(`\bbrokerd_[a-z_]+`)
	elsewhere := regexp.MustCompile(`^brokerd_(replica|peer|otlp)_`)
	for _, pattern := range []string{"../../deploy/prometheus/*.yml", "../../docs/operations.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range metric.FindAllString(string(content), -1) {
				if !exported[name] && !elsewhere.MatchString(name) {
					t.Errorf("%s speaks of %s, which a node does not export", file, name)
				}
			}
		}
	}
}
