package admin

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/web"
)

// serve listens on the loopback interface until the end of the test.
func serve(t *testing.T, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := web.NewHTTPServer(s.Handler(), nil)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return l.Addr().String()
}

func TestNSQClientOnTheHTTPPortIsAnsweredInHTTP(t *testing.T) {
	conn, err := net.Dial("tcp", serve(t, serverOf(t, newFake())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "  V2IDENTIFY\n\x00\x00\x00\x02{}"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 400 Bad Request\r\n") {
		t.Errorf("got %q", answer)
	}
}

// TestHugeBodySenderSeesReason sends more than the kernel buffers, with and without Expect:
// 100-continue.
func TestHugeBodySenderSeesReason(t *testing.T) {
	base := "http://" + serve(t, serverOf(t, newFake("t")))
	huge := bytes.Repeat([]byte("x"), 8<<20)
	client := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for path, word := range map[string]string{"/pub?topic=t": "MSG_TOO_BIG", "/mpub?topic=t": "BODY_TOO_BIG"} {
		for name, body := range map[string]io.Reader{
			"announced": bytes.NewReader(huge),
			"chunked":   io.MultiReader(bytes.NewReader(huge)),
		} {
			resp, err := client.Post(base+path, "application/octet-stream", body)
			if err != nil {
				t.Errorf("%s %s: %v", path, name, err)
				continue
			}
			answer, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 413 || string(answer) != message(word) {
				t.Errorf("%s %s: got %d %s, %v", path, name, resp.StatusCode, answer, err)
			}
			resp.Body.Close()
		}
	}
}

func BenchmarkPub(b *testing.B) {
	f := newFake("t")
	o := optionsOf(f)
	o.Publisher.Sender = discard{f}
	s, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	h, body := s.Handler(), strings.Repeat("x", 128)
	b.ReportAllocs()
	for b.Loop() {
		if w := ask(h, "POST", "/pub?topic=t", body); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}
