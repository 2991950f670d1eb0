package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/failure"
)

// asked is a request as the fake node received it.
type asked struct{ Method, Path, Body string }

// fakeNode gives every request the same answer and records the requests. It serves one request at a
// time.
type fakeNode struct {
	*httptest.Server
	asked []asked
}

func newFakeNode(t *testing.T, status int, answer string) *fakeNode {
	t.Helper()
	n := &fakeNode{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n.asked = append(n.asked, asked{r.Method, r.URL.RequestURI(), string(body)})
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(n.Close)
	return n
}

func newTestClient(t *testing.T, addrs ...string) *Client {
	t.Helper()
	c, err := NewClient(ClientOptions{Addresses: addrs})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEachCallAsksItsEndpoint(t *testing.T) {
	when := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	sync := Sync(100)
	calls := []struct {
		name string
		call func(context.Context, *Client) error
		want asked
	}{
		{"topics", func(ctx context.Context, c *Client) error { _, err := c.Topics(ctx); return err }, asked{"GET", "/v1/topics", ""}},
		{"topic", func(ctx context.Context, c *Client) error { _, err := c.Topic(ctx, "t"); return err }, asked{"GET", "/v1/topics/t", ""}},
		{
			"topic whose name needs encoding", func(ctx context.Context, c *Client) error { _, err := c.Topic(ctx, "t#ephemeral"); return err },
			asked{"GET", "/v1/topics/t%23ephemeral", ""},
		},
		{"create topic", func(ctx context.Context, c *Client) error {
			_, err := c.CreateTopic(ctx, CreateTopic{Name: "t", Config: ConfigPatch{Partitions: new(2), Sync: &sync}})
			return err
		}, asked{"POST", "/v1/topics", `{"name":"t","config":{"partitions":2,"sync":100}}`}},
		{"alter topic", func(ctx context.Context, c *Client) error {
			_, err := c.AlterTopic(ctx, "t", ConfigPatch{Retention: new(Duration(72 * time.Hour))})
			return err
		}, asked{"PATCH", "/v1/topics/t", `{"retention":"72h0m0s"}`}},
		{
			"add partitions", func(ctx context.Context, c *Client) error { _, err := c.AddPartitions(ctx, "t", 3); return err },
			asked{"POST", "/v1/topics/t/partitions", `{"partitions":3}`},
		},
		{"pause topic", func(ctx context.Context, c *Client) error { return c.PauseTopic(ctx, "t", true) }, asked{"POST", "/v1/topics/t/pause", ""}},
		{"resume topic", func(ctx context.Context, c *Client) error { return c.PauseTopic(ctx, "t", false) }, asked{"POST", "/v1/topics/t/resume", ""}},
		{"empty topic", func(ctx context.Context, c *Client) error { return c.EmptyTopic(ctx, "t") }, asked{"POST", "/v1/topics/t/empty", ""}},
		{"delete topic", func(ctx context.Context, c *Client) error { return c.DeleteTopic(ctx, "t") }, asked{"DELETE", "/v1/topics/t", ""}},
		{"verify", func(ctx context.Context, c *Client) error { _, err := c.Verify(ctx, "t"); return err }, asked{"GET", "/v1/topics/t/verify", ""}},
		{"partitions", func(ctx context.Context, c *Client) error { _, err := c.Partitions(ctx); return err }, asked{"GET", "/v1/partitions", ""}},
		{"channels", func(ctx context.Context, c *Client) error { _, err := c.Channels(ctx, "t"); return err }, asked{"GET", "/v1/topics/t/channels", ""}},
		{
			"channel", func(ctx context.Context, c *Client) error { _, err := c.Channel(ctx, "t", "c"); return err },
			asked{"GET", "/v1/topics/t/channels/c", ""},
		},
		{"create channel", func(ctx context.Context, c *Client) error {
			_, err := c.CreateChannel(ctx, "t", CreateChannel{Name: "c"})
			return err
		}, asked{"POST", "/v1/topics/t/channels", `{"name":"c"}`}},
		{
			"pause channel", func(ctx context.Context, c *Client) error { return c.PauseChannel(ctx, "t", "c", true) },
			asked{"POST", "/v1/topics/t/channels/c/pause", ""},
		},
		{
			"resume channel", func(ctx context.Context, c *Client) error { return c.PauseChannel(ctx, "t", "c", false) },
			asked{"POST", "/v1/topics/t/channels/c/resume", ""},
		},
		{
			"empty channel", func(ctx context.Context, c *Client) error { return c.EmptyChannel(ctx, "t", "c") },
			asked{"POST", "/v1/topics/t/channels/c/empty", ""},
		},
		{"seek to an edge", func(ctx context.Context, c *Client) error {
			_, err := c.SeekChannel(ctx, "t", "c", Seek{To: SeekStart})
			return err
		}, asked{"POST", "/v1/topics/t/channels/c/seek", `{"to":"start"}`}},
		{"seek to a time", func(ctx context.Context, c *Client) error {
			_, err := c.SeekChannel(ctx, "t", "c", Seek{Time: &when})
			return err
		}, asked{"POST", "/v1/topics/t/channels/c/seek", `{"time":"2026-11-21T00:00:00Z"}`}},
		{
			"delete channel", func(ctx context.Context, c *Client) error { _, err := c.DeleteChannel(ctx, "t", "c"); return err },
			asked{"DELETE", "/v1/topics/t/channels/c", ""},
		},
		{"publish", func(ctx context.Context, c *Client) error {
			_, err := c.Publish(ctx, "t", Publish{
				Messages:  []Message{{Text: "a", Delay: Duration(time.Minute)}, {Body: []byte{0xff}}},
				Partition: new(0), Key: "k",
			})
			return err
		}, asked{
			"POST", "/v1/topics/t/messages",
			`{"messages":[{"text":"a","delay":"1m0s"},{"body":"/w=="}],"partition":0,"key":"k"}`,
		}},
		{"peek a topic", func(ctx context.Context, c *Client) error {
			_, err := c.Peek(ctx, "t", "", PeekOptions{Partition: new(1), From: new(uint64(7)), Max: 3})
			return err
		}, asked{"GET", "/v1/topics/t/messages?from=7&n=3&partition=1", ""}},
		{
			"peek a channel", func(ctx context.Context, c *Client) error {
				_, err := c.Peek(ctx, "t", "c", PeekOptions{State: PeekDeferred})
				return err
			},
			asked{"GET", "/v1/topics/t/channels/c/messages?state=deferred", ""},
		},
		{"cluster", func(ctx context.Context, c *Client) error { _, err := c.Cluster(ctx); return err }, asked{"GET", "/v1/cluster", ""}},
		{"health", func(ctx context.Context, c *Client) error { _, err := c.Health(ctx); return err }, asked{"GET", "/v1/cluster/health", ""}},
		{"nodes", func(ctx context.Context, c *Client) error { _, err := c.Nodes(ctx); return err }, asked{"GET", "/v1/nodes", ""}},
	}
	for _, tc := range calls {
		t.Run(tc.name, func(t *testing.T) {
			node := newFakeNode(t, http.StatusOK, "{}")
			if err := tc.call(t.Context(), newTestClient(t, node.URL)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]asked{tc.want}, node.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A name that a path cannot contain is sent in the query, and only for deletions.
func TestDotSegmentsAreNeverPartOfAPath(t *testing.T) {
	node := newFakeNode(t, http.StatusOK, "{}")
	c := newTestClient(t, node.URL)
	ctx := t.Context()
	_, err1 := c.DeleteChannel(ctx, "t", "..")
	_, err2 := c.DeleteChannel(ctx, ".", "c")
	for what, err := range map[string]error{
		"delete topic":   c.DeleteTopic(ctx, ".."),
		"delete channel": errors.Join(err1, err2),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	slices.SortFunc(node.asked, func(a, b asked) int { return strings.Compare(a.Path, b.Path) })
	want := []asked{
		{"DELETE", "/v1/channels?channel=..&topic=t", ""}, {"DELETE", "/v1/channels?channel=c&topic=.", ""}, {"DELETE", "/v1/topics?topic=..", ""},
	}
	if diff := cmp.Diff(want, node.asked); diff != "" {
		t.Error(diff)
	}
	node.asked = nil
	for what, err := range map[string]error{
		"pause topic": c.PauseTopic(ctx, "..", true), "empty channel": c.EmptyChannel(ctx, "t", "."), "remove node": c.RemoveNode(ctx, "..", RemoveNode{}),
	} {
		if CodeOf(err) != failure.Invalid {
			t.Errorf("%s: %v, want %s", what, err, failure.Invalid)
		}
	}
	if len(node.asked) > 0 {
		t.Errorf("sent %v", node.asked)
	}
}

// A change is carried out at the addressed resource or not at all. A redirect, for instance by a
// proxy that cleans paths, may name another resource.
func TestChangeIsNotRedirected(t *testing.T) {
	other := newFakeNode(t, http.StatusOK, "{}")
	for _, status := range []int{301, 302, 303, 307, 308} {
		asks := 0
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asks++
			http.Redirect(w, r, other.URL+r.URL.RequestURI(), status)
		}))
		defer proxy.Close()
		for name, h := range map[string]*http.Client{"own": nil, "given": proxy.Client()} {
			c, err := NewClient(ClientOptions{Addresses: []string{proxy.URL}, HTTP: h})
			if err != nil {
				t.Fatal(err)
			}
			asks, other.asked = 0, nil
			_, pubErr := c.Publish(t.Context(), "t", Publish{Messages: []Message{{Text: "a"}}})
			_, delErr := c.DeleteChannel(t.Context(), "t", "c")
			for what, err := range map[string]error{"delete": delErr, "publish": pubErr} {
				if CodeOf(err) != failure.Invalid || !strings.Contains(err.Error(), "redirects to "+other.URL) {
					t.Errorf("%d, %s client: %s: %v, want %s that names the target", status, name, what, err, failure.Invalid)
				}
			}
			if asks != 2 || len(other.asked) > 0 {
				t.Errorf("%d, %s client: asked %d times, the other place %v", status, name, asks, other.asked)
			}
			if _, err := c.Topics(t.Context()); err != nil || len(other.asked) != 1 {
				t.Errorf("%d, %s client: a read: %v, the other place was asked %v", status, name, err, other.asked)
			}
		}
	}
}

// A read that is redirected in a circle fails.
func TestRedirectedReadEnds(t *testing.T) {
	var proxy *httptest.Server
	proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, proxy.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	defer proxy.Close()
	if _, err := newTestClient(t, proxy.URL).Topics(t.Context()); CodeOf(err) != failure.Unavailable {
		t.Errorf("got %v, want %s", err, failure.Unavailable)
	}
}

func TestAnswersAreDecoded(t *testing.T) {
	node := newFakeNode(t, http.StatusOK, `{"name":"t","config":{"partitions":1,"sync":"interval","sync_interval":"200ms"},
		"partitions":[{"partition":0,"leader":"n1","committed_end":7}],"channels":[{"name":"c","depth":5}],"a_later_field":1}`)
	got, err := newTestClient(t, node.URL).Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	want := &Topic{
		Name:       "t",
		Config:     Config{Partitions: 1, Sync: SyncInterval, SyncInterval: Duration(200 * time.Millisecond)},
		Partitions: []Partition{{Leader: "n1", CommittedEnd: 7}},
		Channels:   []ChannelSummary{{Name: "c", Depth: 5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestErrorKeepsItsCode(t *testing.T) {
	const other = "use the http-address of a node, by default port 4151, not that of its lookup or another server"
	tests := []struct {
		name   string
		status int
		answer string
		want   Error
	}{
		{
			"the broker's", 404, `{"error":{"code":"not_found","message":"topic \"t\" not found","hint":"h","fate":"refused"}}`,
			Error{Code: failure.NotFound, Message: `topic "t" not found`, Hint: "h", Fate: "refused"},
		},
		{"of a node that requires TLS", 403, `{"message":"TLS_REQUIRED","https_port":4153}`, Error{Code: failure.Precondition, Message: "HOST requires TLS", Hint: "use https://127.0.0.1:4153"}},
		{"of another server", 404, "<html>", Error{Code: failure.Internal, Message: "HOST responded 404 Not Found, not as the admin API of brokerd does", Hint: other}},
		{
			"of nsqd", 400, `{"message":"INVALID_TOPIC"}`,
			Error{Code: failure.Internal, Message: "HOST responded 400 Bad Request, not as the admin API of brokerd does", Hint: other},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			node := newFakeNode(t, tc.status, tc.answer)
			c := newTestClient(t, node.URL)
			err := c.DeleteTopic(t.Context(), "t")
			got, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("error %T, want *Error", err)
			}
			want := tc.want
			if host := c.t.bases[0].Host; len(want.Message) > 4 && want.Message[:4] == "HOST" {
				want.Message = host + want.Message[4:]
			}
			if got.Code != want.Code || got.Message != want.Message || got.Hint != want.Hint || got.Fate != want.Fate {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// refusing is an address at which nothing listens, and which the system gives to no listener.
const refusing = "127.0.0.1:1"

func TestRefusingAddressIsSkipped(t *testing.T) {
	node := newFakeNode(t, http.StatusOK, "{}")
	c := newTestClient(t, refusing, node.URL)
	for range 2 {
		if err := c.PauseTopic(t.Context(), "t", true); err != nil {
			t.Fatal(err)
		}
	}
	if len(node.asked) != 3 {
		t.Errorf("asked %d times, want a probe and 2 changes", len(node.asked))
	}
	if got := c.t.first.Load(); got != 1 {
		t.Errorf("asks address %d first, want the one that answered", got)
	}
}

// Learned addresses are used when the given ones do not respond.
func TestLearnedAddressesAreAsked(t *testing.T) {
	node := newFakeNode(t, http.StatusOK, "{}")
	c := newTestClient(t, refusing)
	for _, address := range []string{node.URL, node.URL, "", "ftp://x"} {
		c.Know(address)
	}
	if _, err := c.Topics(t.Context()); err != nil || len(node.asked) != 1 || len(c.t.known()) != 2 {
		t.Errorf("%v, asked %d times, %d addresses", err, len(node.asked), len(c.t.known()))
	}
	secure := newTestClient(t, "https://b")
	if secure.Know(node.URL); len(secure.t.known()) != 1 {
		t.Error("a client of https addresses learned one without TLS")
	}
}

func TestStartingOrExitingNodeIsSkipped(t *testing.T) {
	for _, code := range []failure.Code{failure.Starting, failure.Exiting} {
		other := newFakeNode(t, http.StatusServiceUnavailable, fmt.Sprintf(`{"error":{"code":%q,"message":"not now"}}`, code))
		node := newFakeNode(t, http.StatusOK, "{}")
		if err := newTestClient(t, other.URL, node.URL).EmptyTopic(t.Context(), "t"); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestNoNodeAnswersIsUnavailable(t *testing.T) {
	_, err := newTestClient(t, refusing, "127.0.0.1:2").Topics(t.Context())
	if CodeOf(err) != failure.Unavailable || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want %s with its cause", err, failure.Unavailable)
	}
}

// A node whose machine is down does not respond to the connection attempt: the request was not
// sent.
func TestChangeIsRetriedIfConnectingTimesOut(t *testing.T) {
	cause := &url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: context.DeadlineExceeded}}
	base, err := url.Parse("http://off")
	if err != nil {
		t.Fatal(err)
	}
	again, err := unreached(request{base: base, method: http.MethodPost}, inTime(cause, time.Now().Add(-3*time.Second)))
	if !again || CodeOf(err) != failure.Unavailable || !strings.Contains(err.Error(), "timed out after 3s") {
		t.Errorf("again %t: %v", again, err)
	}
}

// twoNodes sends requests to two nodes: the other responds at once, and the silent one to probes at most.
type twoNodes struct {
	asked  []string
	probed bool // the silent one responds to them
}

func (n *twoNodes) RoundTrip(r *http.Request) (*http.Response, error) {
	probe := r.URL.Path == "/ping"
	if r.URL.Host == "silent" && (!probe || !n.probed) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if !probe {
		n.asked = append(n.asked, r.Method)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// A machine that hangs accepts connections and answers nothing. The outcome of a change that is
// sent to it is unknown, although another node could make it.
func TestSilentNodeIsSkipped(t *testing.T) {
	read := func(ctx context.Context, c *Client) error { _, err := c.Topics(ctx); return err }
	change := func(ctx context.Context, c *Client) error { return c.DeleteTopic(ctx, "t") }
	for name, tt := range map[string]struct {
		addresses []string
		probed    bool
		call      func(context.Context, *Client) error
		want      failure.Code
		says      string
		took      time.Duration
		asked     string
	}{
		"a read":                    {addresses: []string{"silent", "node"}, call: read, took: 5 * time.Second, asked: "GET"},
		"a change":                  {addresses: []string{"silent", "node"}, call: change, took: DialTimeout, asked: "DELETE"},
		"a change, without another": {addresses: []string{"silent"}, call: change, want: failure.Uncertain, says: "timed out after 10s", took: 10 * time.Second},
		"a change, and no node answers": {
			addresses: []string{"silent", "silent", "silent", "silent"}, call: change, want: failure.Unavailable,
			says: "4 of 4 addresses tried, none took the request: " + strings.Repeat("no answer from silent, nothing was changed: timed out after 2s; ", 3) +
				"no answer from silent, nothing was changed: timed out after 2s", took: 8 * time.Second,
		},
		"a change of a node that was silent only then": {
			addresses: []string{"silent", "node"}, probed: true, call: change, want: failure.Uncertain, says: "timed out after 10s", took: 10 * time.Second,
		},
		"changes after an answer": {
			addresses: []string{"silent", "node"}, took: DialTimeout, asked: "DELETE DELETE",
			call: func(ctx context.Context, c *Client) error { return errors.Join(change(ctx, c), change(ctx, c)) },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := &twoNodes{probed: tt.probed}
			c, err := NewClient(ClientOptions{Addresses: tt.addresses, HTTP: &http.Client{Transport: nodes}})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err = tt.call(ctx, c)
			cancel()
			if CodeOf(err) != tt.want || (err != nil) != errors.Is(err, context.DeadlineExceeded) || time.Since(start) != tt.took {
				t.Errorf("%s: %v after %v, want code %q after %v", name, err, time.Since(start), tt.want, tt.took)
			}
			if err != nil && !strings.HasSuffix(err.Error(), tt.says) {
				t.Errorf("%s: the error is %q", name, err)
			}
			if got := strings.Join(nodes.asked, " "); got != tt.asked {
				t.Errorf("%s: the other node was asked %q, want %q", name, got, tt.asked)
			}
		})
	}
}

func TestAddressesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1:4151": "http://10.0.0.1:4151", "https://b": "https://b", "http://b/prefix": "http://b/prefix",
		"": "", "http://": "", "ftp://b": "", "http://[": "",
	} {
		c, err := NewClient(ClientOptions{Addresses: []string{text}})
		switch {
		case want == "" && CodeOf(err) != failure.Invalid:
			t.Errorf("%q: error %v, want %s", text, err, failure.Invalid)
		case want != "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && c.t.bases[0].String() != want:
			t.Errorf("%q: %s, want %s", text, c.t.bases[0], want)
		}
	}
}

func TestValuesRoundTrip(t *testing.T) {
	type values struct {
		S []Sync     `json:"s"`
		D []Duration `json:"d"`
	}
	const want = `{"s":["always","interval",500],"d":["72h0m0s","0s","-1.5s"]}`
	var v values
	if err := json.Unmarshal([]byte(want), &v); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(v)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for _, bad := range []string{`{"s":["never"]}`, `{"s":[0]}`, `{"s":["-1"]}`, `{"s":[1.5]}`, `{"d":["3 days"]}`, `{"d":[3]}`} {
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s is read as %+v, want an error", bad, v)
		}
	}
}

func TestEveryCodeHasAnErrorStatus(t *testing.T) {
	for _, c := range []failure.Code{
		failure.Invalid, failure.NotFound, failure.Method, failure.Exists, failure.Precondition, failure.TooLarge, failure.Unauthenticated, failure.Forbidden,
		failure.Busy, failure.NotWritable, failure.Exiting, failure.Starting, failure.Unavailable, failure.Uncertain, failure.Corrupt, failure.Internal, "of a later version",
	} {
		if s := c.Status(); s < 400 || s > 599 {
			t.Errorf("%s: status %d", c, s)
		}
	}
}
