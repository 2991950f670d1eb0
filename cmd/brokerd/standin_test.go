package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/node"
)

// everyOption is a command line with every option of nsqd 1.3.0, as its manual
// lists them.
func everyOption() []string {
	return []string{
		"--auth-http-address=127.0.0.1:1", "--auth-http-request-method=post", "--broadcast-address=example.org",
		"--broadcast-http-port=80", "--broadcast-tcp-port=81", "--data-path=.", "--deflate", "--deflate=true",
		"--e2e-processing-latency-percentile=0.9", "--e2e-processing-latency-percentile=0.5", "--e2e-processing-latency-window-time=10m0s",
		"--http-address=127.0.0.1:0", "--http-client-connect-timeout=2s", "--http-client-request-timeout=5s",
		"--https-address=127.0.0.1:0", "--log-level=INFO", "--log-prefix=[nsqd] ", "--lookupd-tcp-address=127.0.0.1:1",
		"--max-body-size=5123840", "--max-bytes-per-file=104857600", "--max-channel-consumers=0", "--max-deflate-level=6",
		"--max-heartbeat-interval=1m0s", "--max-msg-size=1024768", "--max-msg-timeout=15m0s", "--max-output-buffer-size=65536",
		"--max-output-buffer-timeout=30s", "--max-rdy-count=2500", "--max-req-timeout=1h0m0s", "--mem-queue-size=10000",
		"--min-output-buffer-timeout=25ms", "--msg-timeout=60000", "--node-id=616", "--output-buffer-timeout=250ms",
		"--queue-scan-selection-count=20", "--queue-scan-worker-pool-max=4", "--snappy", "--statsd-address=127.0.0.1:1",
		"--statsd-exclude-ephemeral", "--statsd-interval=30s", "--statsd-mem-stats", "--statsd-prefix=nsq.%s",
		"--statsd-udp-packet-size=508", "--sync-every=2500", "--sync-timeout=2s", "--tcp-address=127.0.0.1:0",
		"--tls-cert=", "--tls-client-auth-policy=", "--tls-key=", "--tls-min-version=tls1.0", "--tls-required=false",
		"--tls-root-ca-file=", "--topology-region=r", "--topology-zone=z", "--enable-experiment=topology-aware-consumption",
		"--verbose", "--worker-id=0", "--http-allowed-hosts=mq.example.org", "--allow-config-from-cidr=10.0.0.0/8",
	}
}

func TestEveryOptionOfNsqdIsAccepted(t *testing.T) {
	var listed []string
	for _, o := range nsqdOptions() {
		listed = append(listed, o.name)
	}
	given := map[string]bool{"version": true, "config": true}
	for _, arg := range everyOption() {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		given[name] = true
	}
	for _, name := range listed {
		if !given[name] {
			t.Errorf("%s is not tried", name)
		}
	}
	for _, dashes := range []string{"--", "-"} {
		args := everyOption()
		for i := range args {
			args[i] = dashes + strings.TrimLeft(args[i], "-")
		}
		r := start(t, t.TempDir(), nil, "nsqd", args...)
		r.expect(`^\[nsqd\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} INFO: nsqd v1\.3\.0 \(built w/go`)
		r.expect(`WARNING: option ignored option=max-bytes-per-file because="`)
		r.expect(`^\[nsqd\] \S+ \S+ INFO: TCP: listening on 127\.0\.0\.1:\d+$`)
		address := r.expect(`INFO: HTTP: listening on (127\.0\.0\.1:\d+)$`)[1]
		if got := get(t, "http://"+address+"/"); got != "example.org:81 0" {
			t.Errorf("advertised %q", got)
		}
		r.signal(syscall.SIGTERM)
		r.exits(exitOK)
		for _, name := range []string{"max-bytes-per-file", "queue-scan-selection-count"} {
			if n := strings.Count(strings.Join(r.seen, "\n"), "option="+name+" "); n != 1 {
				t.Errorf("%d warnings of %s", n, name)
			}
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestNsqdsOptionsBecomeSettings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nsqd.cfg")
	content := "id = 7\nverbose = true\nlog_level = \"warn\"\nnsqlookupd_tcp_addresses = [\"a:1\", \"b:2\"]\nmsg_timeout = 5000\nmax_rdy_count = 9\nmax_req_timeout = \"2h\"\nmem_queue_size = 5\ne2e_processing_latency_percentiles = [0.5, 1.0, 0.99]\ne2e_processing_latency_window_time = \"5m\"\nfoo = 1\ndata_path = \"/var/nsq\"\ntls_required = \"tcp-https\"\ntls_cert = \"c\"\ntls_key = \"k\"\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := parseStandIn(nsqdName, nsqdOptions(), []string{"-config", file, "--max-rdy-count", "10", "-lookupd-tcp-address=c:3", "--sync-timeout=100ms", "-snappy=false", "--log-level=FATAL"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := nsqdConfig(given, "host")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range loaded.Options.Settings() {
		got[s.Key] = s.Value()
	}
	for key, want := range map[string]string{
		"node-id": "nsqd-7", "log-level": "error", "lookupd-tcp-address": "c:3", "msg-timeout": "5s", "max-rdy-count": "10",
		"max-req-timeout": "2h", "data-dir": "/var/nsq/brokerd-data", "tls-required": "tcp-https", "sync": "interval", "sync-interval": "100ms",
		"snappy": "false", "deflate": "true", "e2e-processing-latency-percentile": "0.5,1,0.99", "e2e-processing-latency-window-time": "5m", "tcp-address": "0.0.0.0:4150", "http-address": "0.0.0.0:4151", "https-address": "0.0.0.0:4152",
		"advertise-host": "host", "lookup-address": "", "cluster-address": "", "auto-create-topics": "true", "tls-min-version": "tls1.0",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	if diff := cmp.Diff([]string{"foo"}, given.unknown); diff != "" {
		t.Error(diff)
	}
}

func TestNsqdsDefaults(t *testing.T) {
	for _, tt := range []struct {
		args []string
		key  string
		want string
	}{
		{nil, "https-address", ""},
		{[]string{"--https-address=:1"}, "https-address", ""},
		{nil, "sync", "always"},
		{[]string{"--sync-every=1"}, "sync", "always"},
		{[]string{"--sync-every=2500"}, "sync", "2500"},
		{nil, "node-id", "nsqd"},
		{[]string{"--tls-required"}, "tls-required", "true"},
		{[]string{"--tls-client-auth-policy=require", "--tls-cert=c", "--tls-key=k"}, "tls-required", "true"},
		{[]string{"--tls-client-auth-policy=require", "--tls-required=tcp-https", "--tls-cert=c", "--tls-key=k"}, "tls-required", "tcp-https"},
		{[]string{"--tcp-address=/tmp/nsqd.sock"}, "tcp-address", "/tmp/nsqd.sock"},
	} {
		given, err := parseStandIn(nsqdName, nsqdOptions(), tt.args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := nsqdConfig(given, "host")
		if len(tt.args) == 1 && tt.args[0] == "--tls-required" {
			if err == nil {
				t.Error("TLS was required without a certificate")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range loaded.Options.Settings() {
			if s.Key == tt.key && s.Value() != tt.want {
				t.Errorf("%v: %s = %q, want %q", tt.args, tt.key, s.Value(), tt.want)
			}
		}
	}
}

func TestNsqlookupdListsAnnouncedNsqd(t *testing.T) {
	lookup := start(t, t.TempDir(), nil, "nsqlookupd", "--verbose", "-broadcast-address=127.0.0.1", "-tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
	lookup.expect(`^\[nsqlookupd\] \S+ \S+ INFO: nsqlookupd v1\.3\.0`)
	tcp := lookup.expect(`INFO: TCP: listening on (\S+)$`)[1]
	web := lookup.expect(`INFO: HTTP: listening on (\S+)$`)[1]
	if got := get(t, "http://"+web+"/ping"); got != "OK" {
		t.Errorf("ping: %s", got)
	}
	broker := start(t, t.TempDir(), nil, "brokerd", "nsqd", "-lookupd-tcp-address", tcp, "-broadcast-address=127.0.0.1", "-tcp-address=127.0.0.1:0", "-http-address=127.0.0.1:0")
	address := broker.expect(`TCP: listening on (\S+)$`)[1]
	lookup.expect("producer connected")
	var found struct {
		Channels  []string
		Producers []struct {
			Address string `json:"broadcast_address"`
			Port    int    `json:"tcp_port"`
		}
	}
	// The node has joined; the topics that it serves are known after an exchange or two.
	deadline := time.Now().Add(patience)
	for len(found.Channels) == 0 && time.Now().Before(deadline) {
		if err := json.Unmarshal([]byte(get(t, "http://"+web+"/lookup?topic=topic")), &found); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(found.Channels, []string{"channel"}) || len(found.Producers) != 1 || node.PortOf(address) != found.Producers[0].Port {
		t.Errorf("%+v, want the broker at %s", found, address)
	}
	broker.signal(syscall.SIGTERM)
	broker.exits(exitOK)
	lookup.expect("producer disconnected")
	lookup.signal(syscall.SIGTERM)
	lookup.exits(exitOK)
}

func TestNsqdServesHTTPSWithACertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "localhost")
	r := start(t, dir, nil, "nsqd", "-tcp-address=localhost:0", "-http-address=localhost:0", "-https-address=127.0.0.1:0", "-tls-cert="+cert, "-tls-key="+key)
	address := r.expect(`INFO: HTTPS: listening on (\S+)$`)[1]
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the name is checked below
	res, err := client.Get("https://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if name := res.TLS.PeerCertificates[0].Subject.CommonName; name != "localhost" {
		t.Errorf("%s was served", name)
	}
	r.signal(syscall.SIGTERM)
	r.exits(exitOK)
}
