package lookupd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
)

const introduced = `{"version":"1.3.0","tcp_port":4150,"http_port":4151,"hostname":"h","broadcast_address":"10.0.0.1"}`

// sized prepends the length to body, as IDENTIFY requires.
func sized(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// converse sends input to a new server and returns its answers, one per line, until it disconnects.
func converse(t *testing.T, d *Directory, input string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	srv := &Server{Directory: d, Self: Self{TCPPort: 1, HTTPPort: 2, Version: "1.3.0", BroadcastAddress: "b", Hostname: "h"}, Log: quiet(), IdleTimeout: time.Minute}
	go func() { served <- srv.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Oversize input is not read to its end: the server may disconnect before all is sent.
	_, _ = io.WriteString(conn, input)
	_ = conn.(*net.TCPConn).CloseWrite()
	var answers []string
	r := bufio.NewReader(conn)
	for {
		data, err := readAnswer(r)
		if err != nil {
			break
		}
		answers = append(answers, string(data))
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	return strings.Join(answers, "\n")
}

func TestEveryCommandIsAnsweredAsTheProtocolSays(t *testing.T) {
	const self = `{"tcp_port":1,"http_port":2,"version":"1.3.0","broadcast_address":"b","hostname":"h"}`
	hello := "  V1IDENTIFY\n" + sized(introduced)
	ha := "  V1IDENTIFY\n" + sized(strings.Replace(introduced, "1.3.0", "0.3.7-HA.1", 1))
	for _, tt := range []struct{ name, in, want string }{
		{"bad magic", "  V2PING\n", "E_BAD_PROTOCOL"},
		{"ping", "  V1PING\nPING\r\n", "OK\nOK"},
		{"whole life", hello + "REGISTER t\nREGISTER t c\nPING\nUNREGISTER t c\nUNREGISTER t\n", self + "\nOK\nOK\nOK\nOK\nOK"},
		{"identify twice", hello + "IDENTIFY\n" + sized(introduced), self + "\nE_INVALID cannot IDENTIFY again"},
		{"register first", "  V1REGISTER t\n", "E_INVALID client must IDENTIFY"},
		{"unknown", hello + "PUB t\n", self + "\nE_INVALID invalid command PUB"},
		{"empty line", hello + "\n", self + "\nE_INVALID invalid command "},
		{"no topic", hello + "REGISTER\n", self + "\nE_INVALID REGISTER insufficient number of params"},
		{"bad topic", hello + "REGISTER a$b\n", self + "\nE_BAD_TOPIC REGISTER topic name \"a$b\" is not valid"},
		{"bad channel", hello + "REGISTER t a$b\n", self + "\nE_BAD_CHANNEL REGISTER channel name \"a$b\" is not valid"},
		{"with partition", ha + "REGISTER t 0\nREGISTER t 0 c\nREGISTER t x c\n", self + "\nOK\nOK\nE_BAD_PARTITIONID REGISTER partition \"x\" is not valid"},
		{"no body", "  V1IDENTIFY\n", "E_BAD_BODY IDENTIFY failed to read body size"},
		{"short body", "  V1IDENTIFY\n\x00\x00\x00\x09{}", "E_BAD_BODY IDENTIFY failed to read body"},
		{"huge body", "  V1IDENTIFY\n\xff\xff\xff\xff{}", "E_BAD_BODY IDENTIFY body too big"},
		{"no JSON", "  V1IDENTIFY\n" + sized("{"), "E_BAD_BODY IDENTIFY failed to decode JSON body"},
		{"missing fields", "  V1IDENTIFY\n" + sized(`{"version":"1"}`), "E_BAD_BODY IDENTIFY missing fields"},
		{"endless line", "  V1" + strings.Repeat("x", maxLine+1), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDirectory(time.Minute, time.Minute)
			if diff := cmp.Diff(tt.want, converse(t, d, tt.in)); diff != "" {
				t.Error(diff)
			}
			if left := d.Nodes(time.Now()); len(left) != 0 {
				t.Errorf("%v outlived the connection", left)
			}
		})
	}
}

func FuzzSession(f *testing.F) {
	f.Add([]byte("IDENTIFY\n" + sized(introduced) + "REGISTER t c\nPING\nUNREGISTER t\n"))
	f.Add([]byte("REGISTER \n\x00"))
	f.Fuzz(func(t *testing.T, input []byte) {
		d := NewDirectory(time.Minute, time.Minute)
		s := session{dir: d, r: bufio.NewReaderSize(bytes.NewReader(input), maxLine), now: func() time.Time { return at(0) }}
		for {
			if _, err := s.next(); err != nil {
				break
			}
		}
		d.Leave(s.id)
		if nodes := d.Nodes(at(0)); len(nodes) > 0 {
			t.Errorf("%v are left", nodes)
		}
	})
}

func TestHTTPAnswersAsNsqlookupdDoes(t *testing.T) {
	d := NewDirectory(time.Hour, time.Hour)
	s := d.Join(nsqform.Producer{RemoteAddress: "r:1", Hostname: "h", BroadcastAddress: "b", TCPPort: 1, HTTPPort: 2, Version: "1.3.0"}, time.Now())
	if err := d.Register(s, "t", "c"); err != nil {
		t.Fatal(err)
	}
	handler := Handler(d, "1.3.0")
	const producer = `{"remote_address":"r:1","hostname":"h","broadcast_address":"b","tcp_port":1,"http_port":2,"version":"1.3.0","topology_zone":"","topology_region":""`
	for _, tt := range []struct {
		request string
		status  int
		want    string
	}{
		{"GET /ping", 200, "OK"},
		{"GET /info", 200, `{"version":"1.3.0"}`},
		{"GET /topics", 200, `{"topics":["t"]}`},
		{"GET /channels?topic=t", 200, `{"channels":["c"]}`},
		{"GET /channels?topic=no", 200, `{"channels":[]}`},
		{"GET /channels", 400, `{"message":"MISSING_ARG_TOPIC"}`},
		{"GET /lookup?topic=t", 200, `{"channels":["c"],"producers":[` + producer + `}]}`},
		{"GET /lookup?topic=no", 404, `{"message":"TOPIC_NOT_FOUND"}`},
		{"GET /lookup", 400, `{"message":"MISSING_ARG_TOPIC"}`},
		{"GET /lookup?topic=%zz", 400, `{"message":"INVALID_REQUEST"}`},
		{"GET /nodes", 200, `{"producers":[` + producer + `,"tombstones":[false],"topics":["t"]}]}`},
		{"POST /topic/tombstone?topic=t", 400, `{"message":"MISSING_ARG_NODE"}`},
		{"POST /topic/tombstone?node=b:2", 400, `{"message":"MISSING_ARG_TOPIC"}`},
		{"POST /topic/tombstone?topic=t&node=b:2", 200, ``},
		{"GET /lookup?topic=t", 200, `{"channels":["c"],"producers":[]}`},
		{"GET /nodes", 200, `{"producers":[` + producer + `,"tombstones":[true],"topics":["t"]}]}`},
		{"POST /topic/create", 400, `{"message":"MISSING_ARG_TOPIC"}`},
		{"POST /topic/create?topic=", 400, `{"message":"INVALID_ARG_TOPIC"}`},
		{"POST /topic/create?topic=u", 200, ``},
		{"GET /lookup?topic=u", 200, `{"channels":[],"producers":[]}`},
		{"POST /channel/create?topic=u", 400, `{"message":"MISSING_ARG_CHANNEL"}`},
		{"POST /channel/create?topic=$&channel=c", 400, `{"message":"INVALID_ARG_TOPIC"}`},
		{"POST /channel/create?topic=u&channel=$", 400, `{"message":"INVALID_ARG_CHANNEL"}`},
		{"POST /channel/create?topic=v&channel=c", 200, ``},
		{"GET /topics", 200, `{"topics":["t","u","v"]}`},
		{"POST /channel/delete?topic=v&channel=c", 200, ``},
		{"POST /channel/delete?topic=v&channel=c", 404, `{"message":"CHANNEL_NOT_FOUND"}`},
		{"POST /channel/delete?topic=v", 400, `{"message":"MISSING_ARG_CHANNEL"}`},
		{"POST /topic/delete?topic=t", 200, ``},
		{"POST /topic/delete?topic=t", 200, ``},
		{"POST /topic/delete", 400, `{"message":"MISSING_ARG_TOPIC"}`},
		{"GET /topic/delete?topic=t", 405, `{"message":"METHOD_NOT_ALLOWED"}`},
		{"GET /nowhere", 404, `{"message":"NOT_FOUND"}`},
	} {
		method, target, _ := strings.Cut(tt.request, " ")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, target, nil))
		if w.Code != tt.status || w.Body.String() != tt.want {
			t.Errorf("%s: %d %s, want %d %s", tt.request, w.Code, w.Body, tt.status, tt.want)
		}
		if marked := w.Header().Get("X-NSQ-Content-Type") != ""; marked != (target != "/ping") {
			t.Errorf("%s: content type header %v", tt.request, w.Header())
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug", nil))
	if !strings.Contains(w.Body.String(), `"client::":[{`) || !strings.Contains(w.Body.String(), `"topic:u:":[]`) {
		t.Errorf("debug: %s", w.Body)
	}
}
