package node

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
)

// TestCreationLimitAppliesOnEveryPort creates names through each port until it is refused.
func TestCreationLimitAppliesOnEveryPort(t *testing.T) {
	c := testNode(t)
	c.Options.Limits.CreationBurst, c.Options.Limits.CreationRate = 1, 1
	listen := func(to *[]net.Listener) string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*to = []net.Listener{l}
		return l.Addr().String()
	}
	tcp, web, lookup := listen(&c.Listeners.TCP), listen(&c.Listeners.HTTP), listen(&c.Listeners.Lookup)
	n, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve() }()
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		<-served
	}()
	conn, err := net.Dial("tcp", tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "  V2"); err != nil {
		t.Fatal(err)
	}
	publish := func(name string) string {
		var head [8]byte
		_, err := fmt.Fprintf(conn, "PUB %s\n\x00\x00\x00\x01x", name)
		if err == nil {
			_, err = io.ReadFull(conn, head[:])
		}
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		if _, err := io.ReadFull(conn, text); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	post := func(address, path string) func(string) string {
		return func(name string) string {
			r, err := http.Post("http://"+address+path+name, "", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			if r.StatusCode == http.StatusOK {
				return "OK"
			}
			return fmt.Sprintf("%d %s%s", r.StatusCode, r.Header.Get("Retry-After"), text)
		}
	}
	for way, tt := range map[string]struct {
		create func(name string) string
		want   string
	}{
		"tcp":    {publish, "E_PUB_FAILED PUB failed, refused: " + failure.TooManyCreated.Error()},
		"http":   {post(web, "/pub?topic="), `503 1{"message":"TOO_MANY_CREATED"}`},
		"lookup": {post(lookup, "/topic/create?topic="), `503 1{"message":"TOO_MANY_CREATED"}`},
	} {
		got := "OK"
		for i := 0; i < 1000 && got == "OK"; i++ {
			got = tt.create(fmt.Sprint(way, i))
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", way, got, tt.want)
		}
	}
	if got := publish(n.broker.Directory.Topics()[0].Name); got != "OK" {
		t.Errorf("a topic that exists: %q", got)
	}
	if n.created.Refused() < 3 {
		t.Errorf("%d refusals are counted", n.created.Refused())
	}
}
