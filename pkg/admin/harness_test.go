package admin

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/lookup"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	v1 "github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/admin/web"
)

// The headers of NSQ's answers.
const (
	nsqTypeHeader = "X-NSQ-Content-Type"
	nsqType       = "nsq; version=1.0"
	jsonType      = "application/json; charset=utf-8"
	textType      = "text/plain; charset=utf-8"
)

// optionsOf uses a fake for all rooms of a node.
func optionsOf(f *fake) Options {
	return Options{
		Publisher: web.Publisher{Sender: f, TopicEnsurer: f}, NSQD: nsqd.Broker{TopicWriter: f, Contents: f, Node: f, Deletions: f, ClusterReader: f},
		Lookup: lookup.Broker{Directory: f, ChannelDeleter: f, Node: f, Deletions: f, ClusterReader: f},
		V1: v1.Options{
			Broker:   v1.Broker{TopicReader: f, TopicWriter: f, ReplicaFitter: f, ContentWriter: f, Observer: f, Positions: f, Audit: f, MessageOperator: f, ClusterReader: f},
			Operator: v1.Operator{NodeOperator: f, PartitionOperator: f, Repairer: f, Agreement: f}, Policies: fakePolicies{f}, Plans: fakePlans{f}, Deferrals: fakeDeferrals{f}, Trash: fakeTrash{f}, Traces: fakeTraces{}, Upgrades: &fakeUpgrades{}, Settings: &fakeSettings{}, Access: v1.Access{Accesses: &fakeAccess{}},
		},
	}
}

// serverOf returns a Server for a fake, with small limits.
func serverOf(t *testing.T, f *fake, change ...func(*Options)) *Server {
	t.Helper()
	o := optionsOf(f)
	o.Identity = nsqform.Identity{
		Version: "1.3.0", Hostname: "host", BroadcastAddress: "10.0.0.1", TCPPort: 4150, HTTPPort: 4151, HTTPSPort: 4152,
		Started: time.Unix(1795230522, 0), MaxHeartbeatInterval: time.Minute, MaxOutputBufferSize: 65536,
		MaxOutputBufferTimeout: 30 * time.Second, MaxDeflateLevel: 6,
	}
	o.Limits = web.Limits{MaxMessage: 10, MaxBody: 64}
	o.ConfigFrom = web.Networks{netip.MustParsePrefix("192.0.2.0/24")} // the source address of httptest's requests
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clientOf returns a client of a Server for a fake.
func clientOf(t *testing.T, f *fake, change ...func(*Options)) *api.Client {
	t.Helper()
	srv := httptest.NewServer(serverOf(t, f, change...).Handler())
	t.Cleanup(srv.Close)
	c, err := api.NewClient(api.ClientOptions{Addresses: []string{srv.URL}, HTTP: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends one request to a handler.
func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// goldenText compares with a file in testdata, which ends with a newline.
func goldenText(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), got+"\n")
}

// exchange is one request and the expected answer.
type exchange struct {
	name    string
	request string // method and target
	body    string
	status  int
	want    string // the body
}

// run sends each exchange to a new server with the topics t and t2; t has the channel c.
func run(t *testing.T, lookup bool, exchanges []exchange) {
	t.Helper()
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			s := serverOf(t, newFake("t", "t2").withChannel("t", "c"))
			h := s.Handler()
			if lookup {
				h = s.LookupHandler()
			}
			method, target, _ := strings.Cut(e.request, " ")
			w := ask(h, method, target, e.body)
			if w.Code != e.status || w.Body.String() != e.want {
				t.Errorf("%s: got %d %q, want %d %q", e.request, w.Code, w.Body, e.status, e.want)
			}
			checkHeaders(t, w, target)
		})
	}
}

// checkHeaders checks the headers common to all answers of the NSQ endpoints.
func checkHeaders(t *testing.T, w *httptest.ResponseRecorder, target string) {
	t.Helper()
	want := nsqType
	if strings.HasPrefix(target, "/ping") || strings.HasPrefix(target, "/debug/") {
		want = ""
	}
	if got := w.Header().Get(nsqTypeHeader); got != want {
		t.Errorf("%s is %q, want %q", nsqTypeHeader, got, want)
	}
	body, contentType := w.Body.String(), w.Header().Get("Content-Type")
	switch {
	case body == "":
		want = ""
	case strings.HasPrefix(body, "{") || strings.HasPrefix(body, "["):
		want = jsonType
	default:
		want = textType
	}
	if contentType != want {
		t.Errorf("Content-Type is %q, want %q", contentType, want)
	}
}

func message(word string) string { return `{"message":"` + word + `"}` }
