package blackbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asked sends a request with another Host header, and returns the status and the body.
func asked(t *testing.T, method, address, host, target, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+address+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestCrossSiteRequestsAreRefused(t *testing.T) {
	n := startNode(t, "--http-allowed-hosts", "mq.example.org,.lab.example.org")
	for _, protocol := range []string{"HTTP", "LOOKUP"} {
		address := n.address(protocol)
		for host, want := range map[string]int{
			"evil.example.com": 403, "evil.example.com:80": 403, "127.0.0.1.evil.example.com": 403,
			"mq.example.org": 200, "a.lab.example.org:1": 200, "localhost:4151": 200, "nsqd": 200, "[::1]:4151": 200, "": 200,
		} {
			if got, text := asked(t, "GET", address, host, "/topics", ""); got != want {
				t.Errorf("%s, host %q: got %d %s, want %d", protocol, host, got, text, want)
			}
		}
	}
	address := n.address("HTTP")
	for _, target := range []string{"/pub?topic=t", "/mpub?topic=t", "/v1/topics/t/messages", "/topic/create?topic=t"} {
		if got, text := asked(t, "POST", address, "", target, "x", "Origin", "http://evil.example.com"); got != 403 {
			t.Errorf("%s from another origin: %d %s", target, got, text)
		}
	}
	for _, target := range []string{
		"/lookup?topic=t&access=w", "/lookup?topic=t&access=w&metainfo=true", "/stats?topic=t", "/pub?topic=t", "/topic/create?topic=t",
		"/channel/create?topic=t&channel=c", "/v1/topics/t", "/channels?topic=t",
	} {
		asked(t, "GET", address, "", target, "")
	}
	if _, text := asked(t, "GET", address, "", "/topics", ""); text != `{"topics":[]}` {
		t.Errorf("after all that there are %s", text)
	}
	if got, text := asked(t, "POST", address, "", "/pub?topic=t", "x"); got != 200 { // like curl
		t.Errorf("pub: %d %s", got, text)
	}
}

func TestPublishAfterLookupCreatesTopic(t *testing.T) {
	n := startNode(t)
	_, text := asked(t, "GET", n.address("LOOKUP"), "", "/lookup?topic=new&access=w", "")
	var found struct {
		Partitions map[string]struct {
			Host string `json:"broadcast_address"`
			Port int    `json:"http_port"`
		}
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || found.Partitions["0"].Port == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	at := net.JoinHostPort(found.Partitions["0"].Host, fmt.Sprint(found.Partitions["0"].Port))
	if got, text := asked(t, "POST", at, "", "/pub?topic=new&partition=0", "x"); got != 200 {
		t.Errorf("got %d %s", got, text)
	}
}

func TestOptionsAreChangedOnlyLocally(t *testing.T) {
	n := startNode(t, "--allow-config-from-cidr", "192.0.2.0/24")
	if got, text := asked(t, "PUT", n.address("HTTP"), "", "/config/nsqlookupd_tcp_addresses", `["10.0.0.1:4160"]`); got != 403 {
		t.Errorf("got %d %s", got, text)
	}
	if got, text := asked(t, "GET", n.address("HTTP"), "", "/config/nsqlookupd_tcp_addresses", ""); got != 200 || text != "[]" {
		t.Errorf("got %d %s", got, text)
	}
}

func TestOversizeBodyIsAnsweredAtAnyLimit(t *testing.T) {
	for _, limit := range []string{"1MiB", "32MiB"} {
		n := startNode(t, "--max-body-size", limit, "--max-msg-size", "1MiB")
		conn, err := net.Dial("tcp", n.address("HTTP"))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		size := 2 << 20
		if limit == "32MiB" {
			size = 40 << 20
		}
		fmt.Fprintf(conn, "POST /mpub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
		if _, err := io.Copy(conn, io.LimitReader(zeros{}, int64(size))); err != nil {
			t.Errorf("%s: the body is not taken: %v", limit, err)
		}
		head := make([]byte, 12)
		if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 413" {
			t.Errorf("%s: answered %q, %v", limit, head, err)
		}
		conn.Close()
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
