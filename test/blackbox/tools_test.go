package blackbox

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The stand-ins are started with the command lines of nsqd and nsqlookupd, and find each other.
func TestStandIns(t *testing.T) {
	t.Parallel()
	code, out, _ := run(t, "nsqd", "-version")
	if code != 0 || !strings.HasPrefix(out, "nsqd v") {
		t.Errorf("nsqd -version: %d %q", code, out)
	}
	code, out, _ = run(t, "nsqlookupd", "--version")
	if code != 0 || !strings.HasPrefix(out, "nsqlookupd v") {
		t.Errorf("nsqlookupd --version: %d %q", code, out)
	}
	if code, _, stderr := run(t, "nsqd", "--no-such-flag"); code == 0 || !strings.Contains(stderr, "no-such-flag") {
		t.Errorf("nsqd --no-such-flag: %d %q", code, stderr)
	}
	lookup := newNode(t, "nsqlookupd", "-tcp-address=127.0.0.1:0", "-http-address=127.0.0.1:0", "-inactive-producer-timeout=300s", "-http-allowed-hosts=mq.example.org")
	lookup.launch()
	where := listening(lookup)
	n := newNode(t, "nsqd", "--tcp-address=127.0.0.1:0", "-http-address=127.0.0.1:0", "--data-path="+t.TempDir(),
		"-broadcast-address=127.0.0.1", "--lookupd-tcp-address="+where["TCP"], "--mem-queue-size=100", "--sync-every=1")
	n.launch()
	mine := listening(n)
	for _, path := range []string{"/pub?topic=found", "/channel/create?topic=found&channel=c"} {
		if r, err := httpTo("http://"+mine["HTTP"]+path, "POST", "x"); err != nil || r.code != 200 {
			t.Fatalf("%s: %+v %v", path, r, err)
		}
	}
	base := "http://" + where["HTTP"]
	var answer struct {
		Channels  []string
		Producers []struct {
			Address string `json:"broadcast_address"`
			TCP     int    `json:"tcp_port"`
			HTTP    int    `json:"http_port"`
		}
	}
	eventually(t, "nsqlookupd knows the topic", func() bool {
		r, err := httpTo(base+"/lookup?topic=found", "GET", "")
		return err == nil && r.code == 200 && json.Unmarshal([]byte(r.body), &answer) == nil &&
			len(answer.Producers) == 1 && len(answer.Channels) == 1
	})
	p := answer.Producers[0]
	if got := fmt.Sprintf("%s:%d", p.Address, p.TCP); got != mine["TCP"] {
		t.Errorf("found at %s, is at %s", got, mine["TCP"])
	}
	if r, err := httpTo(base+"/nodes", "GET", ""); err != nil || !strings.Contains(r.body, `"topics":["found"]`) {
		t.Errorf("/nodes: %+v %v", r, err)
	}
	for host, want := range map[string]int{"evil.example.com": 403, "mq.example.org:4161": 200, "localhost:4161": 200} {
		if got, text := asked(t, "GET", where["HTTP"], host, "/topics", ""); got != want {
			t.Errorf("asked as %s: %d %s, want %d", host, got, text, want)
		}
	}
	if code := n.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("nsqd ended with %d", code)
	}
	eventually(t, "nsqlookupd forgets the node", func() bool {
		r, err := httpTo(base+"/nodes", "GET", "")
		return err == nil && strings.Contains(r.body, `"producers":[]`)
	})
	if code := lookup.signal(syscall.SIGINT); code != 0 {
		t.Errorf("nsqlookupd ended with %d", code)
	}
}

// listening waits for the log lines by which test harnesses detect readiness.
func listening(n *node) map[string]string {
	n.t.Helper()
	line := regexp.MustCompile(`(TCP|HTTP): listening on (\S+)`)
	found := map[string]string{}
	eventually(n.t, n.program+" listens", func() bool {
		for _, m := range line.FindAllStringSubmatch(n.logged(), -1) {
			found[m[1]] = m[2]
		}
		return len(found) == 2
	})
	return found
}

// A name that is a dot segment reaches only an object with that name, and no new object can get it.
func TestDotSegmentsDeleteNothingElse(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.post("/pub?topic=t", "a")
	n.post("/channel/create?topic=t&channel=c", "")
	address := "http://" + n.address("HTTP")
	for _, args := range [][]string{
		{"channel", "delete", "t", "..", "--yes"},
		{"channel", "delete", "t", ".", "--yes"},
		{"channel", "empty", "t", "..", "--yes"},
		{"channel", "create", "t", ".."},
		{"topic", "create", ".."},
		{"topic", "delete", "..", "--yes"},
		{"message", "pub", "..", "x"},
	} {
		if code, out, stderr := run(t, "brokerctl", append([]string{"--addr", address}, args...)...); code == 0 || stderr == "" {
			t.Errorf("brokerctl %q: exit code %d, %s%s", args, code, out, stderr)
		}
	}
	for _, path := range []string{"/v1/topics/t/channels/..", "/v1/topics/t/channels/%2e%2e", "/v1//topics/t"} {
		if r, err := httpTo(address+path, "DELETE", ""); err != nil || r.code != 400 {
			t.Errorf("DELETE %s: %+v %v, want 400", path, r, err)
		}
	}
	if s, ok := n.topic("t"); !ok || len(s.Channels) != 1 {
		t.Errorf("the topic: %+v %v", s, ok)
	}
}

// The endpoints that nsqadmin and similar tools read.
func TestNsqToolEndpoints(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.post("/topic/create?topic=empty", "")
	n.post("/topic/create?topic=t", "")
	n.post("/channel/create?topic=t&channel=c", "")
	lookup := "http://" + n.address("LOOKUP")
	for _, base := range []string{"", lookup} {
		var nodes struct {
			Producers []struct {
				Topics     []string
				Tombstones []bool
				Version    string
			}
		}
		body := n.get(base + "/nodes")
		if err := json.Unmarshal([]byte(body), &nodes); err != nil || len(nodes.Producers) != 1 {
			t.Fatalf("/nodes: %s %v", body, err)
		}
		p := nodes.Producers[0]
		if len(p.Topics) != 2 || len(p.Tombstones) != len(p.Topics) || !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(p.Version) {
			t.Errorf("/nodes: %s", body)
		}
		if got := n.get(base + "/topics"); !strings.Contains(got, `["empty","t"]`) {
			t.Errorf("/topics: %s", got)
		}
		if got := n.get(base + "/channels?topic=none"); got != `{"channels":[]}` {
			t.Errorf("/channels: %s", got)
		}
		if got := n.want(404, "GET", base+"/lookup?topic=none", ""); got != `{"message":"TOPIC_NOT_FOUND"}` {
			t.Errorf("/lookup: %s", got)
		}
		if r := n.http("GET", base+"/lookup?topic=t", ""); r.header.Get("X-NSQ-Content-Type") != "nsq; version=1.0" {
			t.Errorf("/lookup: %v", r.header)
		}
	}
	for _, path := range []string{
		"/stats?format=json", "/stats?format=json&topic=t", "/stats?format=json&topic=t&channel=c",
		"/stats?format=json&include_clients=false", "/stats?format=json&topic=empty",
	} {
		var s struct {
			Topics []struct {
				Latency  *struct{} `json:"e2e_processing_latency"`
				Channels []struct {
					Latency *struct{} `json:"e2e_processing_latency"`
				}
			}
		}
		body := n.get(path)
		if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Topics) == 0 {
			t.Fatalf("%s: %s %v", path, body, err)
		}
		for _, topic := range s.Topics {
			if topic.Latency == nil || topic.Channels == nil {
				t.Errorf("%s: %s", path, body)
			}
			for _, c := range topic.Channels {
				if c.Latency == nil {
					t.Errorf("%s: %s", path, body)
				}
			}
		}
	}
	if got := n.get("/stats?format=json&topic=none"); !strings.Contains(got, `"topics":null`) {
		t.Errorf("/stats of an unknown topic: %s", got)
	}
	if got := n.get("/stats?format=json&topic=t&channel=none"); !strings.Contains(got, `"topics":[]`) {
		t.Errorf("/stats of an unknown channel: %s", got)
	}
	// nsqadmin deletes through the lookup daemon, once for each address it knows, then through the
	// node
	for range 3 {
		n.post(lookup+"/channel/delete?topic=t&channel=c", "")
	}
	n.post("/channel/delete?topic=t&channel=c", "")
	for range 3 {
		n.post(lookup+"/topic/delete?topic=t", "")
	}
	n.post("/topic/delete?topic=t", "")
	n.want(404, "POST", "/topic/delete?topic=never", "")
	n.post(lookup+"/topic/delete?topic=never", "")
}

// Refusals over HTTP.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	n := startNode(t, "--max-msg-size", "100", "--max-body-size", "1000")
	n.post("/topic/create?topic=t", "")
	long := strings.Repeat("x", 101)
	for _, tt := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/pub", "x", 400, "MISSING_ARG_TOPIC"},
		{"POST", "/pub?topic=", "x", 400, "INVALID_TOPIC"},
		{"POST", "/pub?topic=a$", "x", 400, "INVALID_TOPIC"},
		{"POST", "/pub?topic=t", "", 400, "MSG_EMPTY"},
		{"POST", "/pub?topic=t", long, 413, "MSG_TOO_BIG"},
		{"POST", "/pub?topic=t&defer=x", "x", 400, "INVALID_DEFER"},
		{"POST", "/pub?topic=t&defer=-1", "x", 400, "INVALID_DEFER"},
		{"POST", "/pub?topic=t&defer=3600001", "x", 400, "INVALID_DEFER"},
		{"POST", "/pub?topic=%zz", "x", 400, "INVALID_REQUEST"},
		{"GET", "/pub?topic=t", "", 405, "METHOD_NOT_ALLOWED"},
		{"POST", "/nothing", "", 404, "NOT_FOUND"},
		{"POST", "/mpub?topic=t", strings.Repeat("x\n", 501), 413, "BODY_TOO_BIG"},
		{"POST", "/mpub?topic=t", "x\n" + long, 413, "MSG_TOO_BIG"},
		{"POST", "/mpub?topic=t&binary=true", "abc", 413, "BAD_BODY"},
		{"POST", "/mpub?topic=t&binary", "\x00\x00\x00\x01\x00\x00\x00\x00", 413, "BAD_MESSAGE"},
		{"POST", "/mpub?topic=t&binary=1", "\x7f\xff\xff\xff\x00\x00\x00\x01x", 413, "BAD_BODY"},
		{"POST", "/topic/create", "", 400, "MISSING_ARG_TOPIC"},
		{"POST", "/topic/create?topic=a$", "", 400, "INVALID_TOPIC"},
		{"POST", "/topic/empty?topic=none", "", 404, "TOPIC_NOT_FOUND"},
		{"POST", "/topic/pause?topic=a$", "", 404, "TOPIC_NOT_FOUND"},
		{"POST", "/channel/create?topic=t", "", 400, "MISSING_ARG_CHANNEL"},
		{"POST", "/channel/create?topic=t&channel=a$", "", 400, "INVALID_ARG_CHANNEL"},
		{"POST", "/channel/create?topic=a$&channel=c", "", 400, "INVALID_ARG_TOPIC"},
		{"POST", "/channel/create?topic=none&channel=c", "", 404, "TOPIC_NOT_FOUND"},
		{"POST", "/channel/empty?topic=t&channel=none", "", 404, "CHANNEL_NOT_FOUND"},
		{"GET", "/config/nothing", "", 400, "INVALID_OPTION"},
		{"PUT", "/config/log_level", "loud", 400, "INVALID_VALUE"},
		{"PUT", "/config/max_msg_size", "1", 400, "INVALID_OPTION"},
		{"PUT", "/config/log_level", "", 413, "INVALID_VALUE"},
	} {
		got := n.want(tt.code, tt.method, tt.path, tt.body)
		if want := `{"message":"` + tt.says + `"}`; got != want {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, got, want)
		}
	}
	if s, _ := n.topic("t"); s.Messages != 0 || len(n.topics()) != 1 {
		t.Errorf("left behind: %+v", n.topics())
	}
	if got := n.post("/pub?topic=t", long[:100]); got != "OK" {
		t.Errorf("%q", got)
	}
	if got := n.post("/mpub?topic=t", "a\n\nb\n"); got != "OK" {
		t.Errorf("%q", got)
	}
	if s, _ := n.topic("t"); s.Messages != 3 {
		t.Errorf("%+v", s)
	}
}

// brokerctl, from an empty node to a consumed message, and its exit codes.
func TestCommandLineTool(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	addr := "http://" + n.address("HTTP")
	n.ctl(0, "topic", "create", "t", "--partitions", "2", "--sync", "interval")
	n.ctl(0, "channel", "create", "t", "c")
	n.ctl(0, "message", "pub", "t", "one", "two", "three")
	n.ctl(0, "message", "pub", "t", "later", "--delay", "100ms")
	if out := n.ctl(0, "message", "peek", "t", "-n", "10", "-o", "ndjson"); strings.Count(out, "\n") != 4 {
		t.Errorf("peek: %s", out)
	}
	if out := n.ctl(0, "message", "tail", "t/c", "-n", "4"); len(strings.Fields(out)) != 4 {
		t.Errorf("tail: %s", out)
	}
	eventually(t, "all read", func() bool { return n.channel("t", "c").Depth == 0 })
	if out := n.ctl(0, "topic", "describe", "t", "-o", "json"); !json.Valid([]byte(out)) || !strings.Contains(out, `"sync":"interval"`) {
		if !strings.Contains(out, `"sync": "interval"`) {
			t.Errorf("describe: %s", out)
		}
	}
	n.ctl(0, "channel", "pause", "t", "c")
	n.ctl(0, "topic", "list", "-o", "name")
	n.ctl(0, "cluster", "health")
	n.ctl(0, "cluster", "info", "-o", "yaml")
	n.ctl(0, "node", "list")
	out := n.ctl(exitOf(t, "topic", "describe", "none", addr), "topic", "describe", "none", "-o", "json")
	if !strings.Contains(out, `"error"`) || !strings.Contains(out, `"code"`) {
		t.Errorf("an error as JSON: %s", out)
	}
	if out := n.ctl(2, "topic", "frobnicate"); out == "" {
		t.Error("silence")
	}
	n.ctl(2, "topic", "delete", "t")
	n.ctl(0, "topic", "delete", "t", "--yes")
}

// exitOf expects a failure that is not a usage error.
func exitOf(t *testing.T, noun, verb, name, addr string) int {
	t.Helper()
	code, _, _ := run(t, "brokerctl", "--addr", addr, noun, verb, name)
	if code == 0 || code == 2 || code == 70 {
		t.Errorf("%s %s %s: exit code %d", noun, verb, name, code)
	}
	return code
}

// A client that reads nothing does not affect others, and is finally disconnected.
func TestNonReadingConsumer(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	stuck := n.consumer("t", "slow", 2500, `{"heartbeat_interval":1000}`)
	good := n.consumer("t", "good", 2500, "{}")
	p := n.dial()
	body := strings.Repeat("x", 500_000)
	go func() { // the answers are read below
		for range 60 {
			if _, err := p.Write([]byte(pub("t", body))); err != nil {
				return
			}
		}
	}()
	for range 60 {
		p.ok()
		good.fin(good.message())
	}
	eventually(t, "the slow one is dropped and its messages are back", func() bool {
		c := n.channel("t", "slow")
		return c.Clients == 0 && c.InFlight == 0 && c.Depth == 60
	})
	_ = stuck.SetDeadline(time.Now())
}
