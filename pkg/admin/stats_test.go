package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/stats"
)

// busy is a fake with one topic of each kind.
func busy() *fake {
	f := newFake("empty", "t").withChannel("t", "c").withChannel("t", "idle")
	client := stats.Client{
		Consumer:        api.Consumer{ClientID: "id", Hostname: "host.example", UserAgent: "go-nsq/1.1.0", Address: "10.0.0.9:55555", ConnectedAt: time.Unix(1795230600, 0), TLS: true, Ready: 200, InFlight: 2, DeliveredTotal: 10, FinishedTotal: 7, RequeuedTotal: 1},
		State:           3,
		SampleRate:      50,
		Snappy:          true,
		TLSCipherSuite:  "TLS_AES_128_GCM_SHA256",
		TLSVersion:      "TLS1.3",
		TLSMutual:       true,
		Authed:          true,
		AuthIdentity:    "joe",
		AuthIdentityURL: "http://joe",
		TopologyZone:    "z",
	}
	f.stats = []stats.Topic{
		{Name: "empty"},
		{
			Name: "t", Depth: 3, Messages: 13, Bytes: 1048592, Paused: true,
			Channels: []stats.Channel{
				{
					Name:          "c",
					ChannelCounts: api.ChannelCounts{Depth: 5, InFlight: 2, Deferred: 1, MessagesTotal: 20, RequeuedTotal: 1, TimedOutTotal: 4},
					Paused:        true,
					Consumers:     1,
					Clients:       []stats.Client{client},
				},
				{Name: "idle"},
			},
		},
	}
	return f
}

func producers() []stats.Client {
	return []stats.Client{
		{Consumer: api.Consumer{Address: "10.0.0.8:1", ConnectedAt: time.Unix(1795230600, 0)}, PubCounts: map[string]uint64{"t": 13, "a": 2}},
		{Consumer: api.Consumer{Address: "10.0.0.8:2"}},
	}
}

func TestStatsMatchTheirGoldens(t *testing.T) {
	h := serverOf(t, busy(), func(o *Options) { o.Clients = producers }).Handler()
	for name, target := range map[string]string{
		"stats.json":              "/stats?format=json&include_mem=false",
		"stats-no-clients.json":   "/stats?format=json&include_mem=false&include_clients=false",
		"stats-topic.json":        "/stats?format=json&include_mem=0&include_clients=0&topic=t&channel=c",
		"stats-unknown.json":      "/stats?format=json&include_mem=0&include_clients=0&topic=none",
		"stats-no-channel.json":   "/stats?format=json&include_mem=0&include_clients=0&topic=t&channel=none",
		"stats-any-channel.json":  "/stats?format=json&include_mem=0&include_clients=0&channel=idle",
		"stats-without-data.json": "/stats?format=json&include_mem=0&topic=empty",
	} {
		w := ask(h, "GET", target, "")
		checkHeaders(t, w, target)
		goldenText(t, name, indented(t, w.Body.Bytes()))
	}
}

func TestStatsIncludeMemoryByDefault(t *testing.T) {
	h := serverOf(t, busy()).Handler()
	for query, want := range map[string]bool{"": true, "&include_mem=true": true, "&include_mem=x": true, "&include_mem=false": false, "&include_mem=0": false} {
		var st struct{ Memory map[string]int }
		if err := json.Unmarshal(ask(h, "GET", "/stats?format=json"+query, "").Body.Bytes(), &st); err != nil {
			t.Fatal(err)
		}
		if (st.Memory != nil) != want {
			t.Errorf("%q: memory is %v", query, st.Memory)
		}
	}
}

func TestStatsAsText(t *testing.T) {
	h := serverOf(t, busy(), func(o *Options) { o.Clients = producers }).Handler()
	w := ask(h, "GET", "/stats?include_mem=false", "")
	checkHeaders(t, w, "/stats")
	text := regexp.MustCompile(`(?m)(connected:|uptime|\(built w/)[^\n]*`).ReplaceAllString(w.Body.String(), "$1 …")
	goldenText(t, "stats.txt", text)
	if w := ask(serverOf(t, newFake()).Handler(), "GET", "/stats?format=text", ""); !strings.Contains(w.Body.String(), "heap_objects") ||
		!strings.Contains(w.Body.String(), "Topics: None") {
		t.Errorf("got %s", w.Body)
	}
}

func TestInfo(t *testing.T) {
	run(t, false, []exchange{{"info", "GET /info", "", 200, `{"version":"1.3.0","broadcast_address":"10.0.0.1","hostname":"host","http_port":4151,"tcp_port":4150,` +
		`"start_time":1795230522,"max_heartbeat_interval":60000000000,"max_output_buffer_size":65536,"max_output_buffer_timeout":30000000000,` +
		`"max_deflate_level":6,"topology_zone":"","topology_region":""}`}})
}

// options is a Config with a number, a word and a list.
type options map[string]any

func (o options) Option(name string) (any, bool) { v, ok := o[name]; return v, ok }

func (o options) SetOption(name string, value []byte) error {
	switch name {
	case "log_level":
		if string(value) != "debug" {
			return errors.New("no such level")
		}
		o[name] = 1
		return nil
	case "nsqlookupd_tcp_addresses":
		var list []string
		if err := json.Unmarshal(value, &list); err != nil {
			return err
		}
		o[name] = list
		return nil
	}
	return nsqd.ErrUnknownOption
}

func TestOptionsAreReadAndChanged(t *testing.T) {
	s := serverOf(t, newFake(), func(o *Options) {
		o.Config = options{"log_level": 2, "max_msg_size": 1048576, "nsqlookupd_tcp_addresses": []string{}, "statsd_prefix": "nsq.%s"}
	})
	for _, e := range []exchange{
		{"", "GET /config/log_level", "", 200, "2"},
		{"", "GET /config/max_msg_size", "", 200, "1048576"},
		{"", "GET /config/nsqlookupd_tcp_addresses", "", 200, "[]"},
		{"", "GET /config/statsd_prefix", "", 200, "nsq.%s"},
		{"", "GET /config/none", "", 400, message("INVALID_OPTION")},
		{"", "PUT /config/log_level", "debug", 200, "1"},
		{"", "PUT /config/log_level", "loud", 400, message("INVALID_VALUE")},
		{"", "PUT /config/log_level", "", 413, message("INVALID_VALUE")},
		{"", "PUT /config/log_level", "0123456789a", 413, message("INVALID_VALUE")},
		{"", "PUT /config/nsqlookupd_tcp_addresses", `["a:1"]`, 200, `["a:1"]`},
		{"", "PUT /config/max_msg_size", "1", 400, message("INVALID_OPTION")},
		{"", "POST /config/log_level", "debug", 405, message("METHOD_NOT_ALLOWED")},
		{"", "GET /config/", "", 400, message("INVALID_OPTION")},
	} {
		method, target, _ := strings.Cut(e.request, " ")
		w := ask(s.Handler(), method, target, e.body)
		if w.Code != e.status || w.Body.String() != e.want {
			t.Errorf("%s %q: got %d %s, want %d %s", e.request, e.body, w.Code, w.Body, e.status, e.want)
		}
	}
	if w := ask(serverOf(t, newFake()).Handler(), "PUT", "/config/log_level", "debug"); w.Code != 400 {
		t.Errorf("without options: got %d", w.Code)
	}
}

func TestDebugIsServedWhereEnabled(t *testing.T) {
	on := serverOf(t, newFake(), func(o *Options) { o.Debug = true }).Handler()
	off := serverOf(t, newFake()).Handler()
	foreign := serverOf(t, newFake(), func(o *Options) { o.Debug, o.ConfigFrom = true, nil }).Handler()
	for _, request := range []string{
		"GET /debug/pprof/", "GET /debug/pprof/cmdline", "GET /debug/pprof/goroutine", "GET /debug/pprof/symbol",
		"POST /debug/freememory", "PUT /debug/setblockrate?rate=0",
	} {
		method, target, _ := strings.Cut(request, " ")
		if w := ask(on, method, target, ""); w.Code != 200 {
			t.Errorf("%s: got %d %s", request, w.Code, w.Body)
		}
		if w := ask(off, method, target, ""); w.Code != 404 {
			t.Errorf("%s, off: got %d", request, w.Code)
		}
		if w := ask(foreign, method, target, ""); w.Code != 403 || strings.Contains(w.Body.String(), "goroutine") {
			t.Errorf("%s, from another network: got %d %s", request, w.Code, w.Body)
		}
	}
	if w := ask(on, "PUT", "/debug/setblockrate?rate=x", ""); w.Code != 400 || w.Body.String() != "INVALID_RATE" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestHealthEndpoints(t *testing.T) {
	sick := []health.Reason{{Code: "disk_failed", Count: 1, What: "write: input/output error"}, {Code: "isr", Count: 2, What: "not in sync"}}
	for _, test := range []struct {
		name, target string
		change       func(*Options, *fake)
		status       int
		want         string
	}{
		{"ping", "/ping", nil, 200, "OK"},
		{"ping on a bad disk", "/ping", func(_ *Options, f *fake) { f.ready = sick }, 500, "NOK - write: input/output error"},
		{"ping on another trouble", "/ping", func(_ *Options, f *fake) { f.ready = sick[1:] }, 200, "OK"},
		{"live", "/livez", nil, 200, `{"ok":true,"reasons":[]}`},
		{"live, other name", "/healthz", nil, 200, `{"ok":true,"reasons":[]}`},
		{"live without the others", "/livez", func(_ *Options, f *fake) { f.ready = sick }, 200, `{"ok":true,"reasons":[]}`},
		{"stuck", "/livez", func(o *Options, _ *fake) {
			o.Live = func() []health.Reason { return []health.Reason{{Code: "stuck", Count: 1, What: "a loop"}} }
		}, 503, `{"ok":false,"reasons":[{"code":"stuck","count":1,"what":"a loop"}]}`},
		{"ready", "/readyz", nil, 200, `{"ok":true,"reasons":[]}`},
		{"not ready", "/readyz", func(_ *Options, f *fake) { f.ready = sick[1:] }, 503, `{"ok":false,"reasons":[{"code":"isr","count":2,"what":"not in sync"}]}`},
		{"ready but for what does not count", "/readyz?exclude=isr,x", func(_ *Options, f *fake) { f.ready = sick[1:] }, 200, `{"ok":true,"reasons":[]}`},
		{"started", "/startupz", nil, 200, `{"ok":true,"reasons":[]}`},
	} {
		f := newFake()
		s := serverOf(t, f, func(o *Options) {
			if test.change != nil {
				test.change(o, f)
			}
		})
		w := ask(s.Handler(), "GET", test.target, "")
		if w.Code != test.status || w.Body.String() != test.want {
			t.Errorf("%s: got %d %s, want %d %s", test.name, w.Code, w.Body, test.status, test.want)
		}
	}
}

func TestMetricsAreServedIfProvided(t *testing.T) {
	if w := ask(serverOf(t, newFake()).Handler(), "GET", "/metrics", ""); w.Code != 404 {
		t.Errorf("got %d", w.Code)
	}
	s := serverOf(t, newFake(), func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })
	})
	if w := ask(s.Handler(), "GET", "/metrics", ""); w.Code != 200 || w.Body.String() != "up 1\n" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
