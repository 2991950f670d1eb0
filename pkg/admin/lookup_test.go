package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

// threeNodes is a cluster with a topic of four partitions: two led by n1, one
// by n2, one by n3, which is down.
func threeNodes() *fake {
	f := newFake("solo")
	f.info.Nodes = append(
		f.info.Nodes,
		api.Node{ID: "n2", State: "draining", TCPAddress: "10.0.0.2:4150", HTTPAddress: "10.0.0.2:4151", ClusterAddress: "10.0.0.2:4152", Zone: "z2", Version: "1.3.1"},
		api.Node{ID: "n3", State: "down", TCPAddress: "10.0.0.3:4150", HTTPAddress: "10.0.0.3:4151"},
	)
	t := f.create("spread", meta.TopicConfig{Partitions: 4, Replicas: 3, MinISR: 2, Ordered: true, Ext: true})
	for i, leader := range []meta.NodeID{"n1", "n2", "n1", "n3"} {
		t.Partitions[i].Leader = leader
	}
	f.withChannel("spread", "b").withChannel("spread", "a")
	f.stats = []stats.Topic{{Name: "spread", Channels: []stats.Channel{{Name: "b"}, {Name: "tail#ephemeral", Ephemeral: true}}}}
	return f
}

func TestLookupOfTheLookupAddress(t *testing.T) {
	const producer = `{"remote_address":"10.0.0.1:4150","hostname":"host","broadcast_address":"10.0.0.1","tcp_port":4150,"http_port":4151,"version":"1.3.0","topology_zone":"","topology_region":""}`
	run(t, true, []exchange{
		{"ping", "GET /ping", "", 200, "OK"},
		{"info", "GET /info", "", 200, `{"version":"1.3.0"}`},
		{"topics", "GET /topics", "", 200, `{"topics":["t","t2"]}`},
		{"channels", "GET /channels?topic=t", "", 200, `{"channels":["c"]}`},
		{"channels of none", "GET /channels?topic=none", "", 200, `{"channels":[]}`},
		{"channels of no name", "GET /channels?topic=", "", 200, `{"channels":[]}`},
		{"channels without topic", "GET /channels", "", 400, message("MISSING_ARG_TOPIC")},
		{"lookup", "GET /lookup?topic=t", "", 200, `{"channels":["c"],"producers":[` + producer + `],"partitions":{"0":` + producer + `}}`},
		{"lookup without topic", "GET /lookup", "", 400, message("MISSING_ARG_TOPIC")},
		{"lookup of none", "GET /lookup?topic=none", "", 404, message("TOPIC_NOT_FOUND")},
		{"lookup of no name", "GET /lookup?topic=", "", 404, message("TOPIC_NOT_FOUND")},
		{"lookup with bad access", "GET /lookup?topic=t&access=x", "", 400, message("INVALID_ACCESS_MODE")},
		{"lookup of another partition", "GET /lookup?topic=t2&partition=1", "", 404, message("PARTITION_NOT_FOUND")},
		{"lookup of a bad partition", "GET /lookup?topic=t2&partition=x", "", 400, message("INVALID_PARTITION")},
		{"lookup to write a topic that is not there", "GET /lookup?topic=new&access=w", "", 200, `{"channels":[],"producers":[` + producer + `],"partitions":{"0":` + producer + `}}`},
		{"nodes", "GET /nodes", "", 200, `{"producers":[` + strings.TrimSuffix(producer, "}") + `,"tombstones":[false,false],"topics":["t","t2"],"partitions":{"t":["0"],"t2":["0"]}}]}`},
		{"create topic", "POST /topic/create?topic=new", "", 200, ""},
		{"create topic again", "POST /topic/create?topic=t", "", 200, ""},
		{"create no topic", "POST /topic/create", "", 400, message("MISSING_ARG_TOPIC")},
		{"create bad topic", "POST /topic/create?topic=!", "", 400, message("INVALID_ARG_TOPIC")},
		{"delete topic", "POST /topic/delete?topic=t", "", 200, ""},
		{"delete unknown topic", "POST /topic/delete?topic=none", "", 200, ""},
		{"delete no topic", "POST /topic/delete", "", 400, message("MISSING_ARG_TOPIC")},
		{"create channel", "POST /channel/create?topic=t&channel=new", "", 200, ""},
		{"create channel of a new topic", "POST /channel/create?topic=new&channel=new", "", 200, ""},
		{"create channel without topic", "POST /channel/create", "", 400, message("MISSING_ARG_TOPIC")},
		{"create channel of bad topic", "POST /channel/create?topic=!", "", 400, message("INVALID_ARG_TOPIC")},
		{"create no channel", "POST /channel/create?topic=t", "", 400, message("MISSING_ARG_CHANNEL")},
		{"create bad channel", "POST /channel/create?topic=t&channel=!", "", 400, message("INVALID_ARG_CHANNEL")},
		{"delete channel", "POST /channel/delete?topic=t&channel=c", "", 200, ""},
		{"delete unknown channel", "POST /channel/delete?topic=t&channel=none", "", 404, message("CHANNEL_NOT_FOUND")},
		{"delete channel of unknown topic", "POST /channel/delete?topic=none&channel=c", "", 404, message("CHANNEL_NOT_FOUND")},
		{"tombstone", "POST /topic/tombstone?topic=t&node=10.0.0.1:4151", "", 200, ""},
		{"tombstone of unknown node", "POST /topic/tombstone?topic=t&node=x:1", "", 200, ""},
		{"tombstone without topic", "POST /topic/tombstone?node=x", "", 400, message("MISSING_ARG_TOPIC")},
		{"tombstone without node", "POST /topic/tombstone?topic=t", "", 400, message("MISSING_ARG_NODE")},
		{"method", "GET /topic/create?topic=t", "", 405, message("METHOD_NOT_ALLOWED")},
		{"path", "GET /stats", "", 404, message("NOT_FOUND")},
	})
}

func TestLookupInAClusterMatchesItsGoldens(t *testing.T) {
	h := serverOf(t, threeNodes()).LookupHandler()
	for name, target := range map[string]string{
		"lookup.json":           "/lookup?topic=spread",
		"lookup-metainfo.json":  "/lookup?topic=spread&metainfo=true&access=r",
		"lookup-partition.json": "/lookup?topic=spread&partition=1",
		"nodes.json":            "/nodes",
		"listlookup.json":       "/listlookup",
		"topics-metainfo.json":  "/topics?metaInfo=true",
		"channels.json":         "/channels?topic=spread",
		"lookup-node-down.json": "/lookup?topic=spread&partition=3",
	} {
		w := ask(h, "GET", target, "")
		if w.Code != 200 {
			t.Errorf("%s: %d", target, w.Code)
		}
		goldenText(t, name, indented(t, w.Body.Bytes()))
	}
}

func TestNodeIsItsOwnLookup(t *testing.T) {
	s := serverOf(t, threeNodes())
	for _, target := range []string{"/lookup?topic=spread", "/topics", "/channels?topic=spread", "/nodes", "/listlookup", "/lookup?topic=none"} {
		a, b := ask(s.Handler(), "GET", target, ""), ask(s.LookupHandler(), "GET", target, "")
		if a.Code != b.Code || a.Body.String() != b.Body.String() {
			t.Errorf("%s: %d %s and %d %s", target, a.Code, a.Body, b.Code, b.Body)
		}
	}
}

// deleteEverywhere sends the requests of one click on an admin page.
func TestOneClickDeletesOnAllAddressesWithoutAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t", "u").withChannel("u", "c")
		s := serverOf(t, f)
		post := func(h http.Handler, target string, want int) {
			t.Helper()
			if w := ask(h, "POST", target, ""); w.Code != want {
				t.Errorf("%s: got %d %s, want %d", target, w.Code, w.Body, want)
			}
		}
		for range 3 {
			post(s.LookupHandler(), "/topic/delete?topic=t", 200)
			post(s.LookupHandler(), "/channel/delete?topic=u&channel=c", 200)
		}
		post(s.Handler(), "/topic/delete?topic=t", 200)
		post(s.Handler(), "/channel/delete?topic=u&channel=c", 200)
		time.Sleep(nsqform.DeletedFor)
		post(s.Handler(), "/topic/delete?topic=t", 404)
		post(s.Handler(), "/channel/delete?topic=u&channel=c", 404)
		post(s.LookupHandler(), "/channel/delete?topic=u&channel=c", 404)
	})
}

func TestTombstoneHidesANodeForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes()
		s := serverOf(t, f)
		h := s.LookupHandler()
		producers := func() int {
			var a struct{ Producers []any }
			w := ask(h, "GET", "/lookup?topic=spread", "")
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			return len(a.Producers)
		}
		if n := producers(); n != 2 {
			t.Fatalf("%d producers", n)
		}
		ask(h, "POST", "/topic/tombstone?topic=spread&node=10.0.0.1:4151", "")
		if n := producers(); n != 1 {
			t.Errorf("%d producers beside a tombstone", n)
		}
		goldenText(t, "nodes-tombstoned.json", indented(t, ask(h, "GET", "/nodes", "").Body.Bytes()))
		goldenText(t, "debug.json", indented(t, ask(h, "GET", "/debug", "").Body.Bytes()))
		if w := ask(s.Handler(), "POST", "/topic/delete?topic=spread", ""); w.Code != 400 || !strings.Contains(w.Body.String(), "TOMBSTONED_HERE") {
			t.Errorf("deleting on the tombstoned node: got %d %s", w.Code, w.Body)
		}
		if _, err := f.Topic("spread"); err != nil {
			t.Error("the cluster's topic is gone")
		}
		ask(h, "POST", "/topic/tombstone?topic=spread&node=10.0.0.1:4151&restore=true", "")
		if n := producers(); n != 2 {
			t.Errorf("%d producers after the tombstone was taken back", n)
		}
		ask(h, "POST", "/topic/tombstone?topic=spread&node=10.0.0.2:4151", "")
		time.Sleep(45 * time.Second)
		if n := producers(); n != 2 {
			t.Errorf("%d producers after the tombstone's time", n)
		}
	})
}

// The leader of all partitions has a tombstone: consumers are sent to another node at once.
func TestTombstoneReturnsAnotherNode(t *testing.T) {
	f := threeNodes()
	one := f.create("one", meta.TopicConfig{Partitions: 1}.WithDefaults(1, false))
	one.Partitions[0] = meta.Partition{Replicas: []meta.NodeID{"n1", "n2"}, ISR: []meta.NodeID{"n1", "n2"}, Leader: "n1", Epoch: 1}
	h := serverOf(t, f).LookupHandler()
	offered := func() []string {
		var a struct {
			Producers []struct {
				BroadcastAddress string `json:"broadcast_address"`
			}
		}
		if err := json.Unmarshal(ask(h, "GET", "/lookup?topic=one", "").Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		all := []string{}
		for _, p := range a.Producers {
			all = append(all, p.BroadcastAddress)
		}
		return all
	}
	for _, hidden := range []string{"", "10.0.0.1:4151", "10.0.0.2:4151"} {
		ask(h, "POST", "/topic/tombstone?topic=one&node="+hidden, "")
		want := map[string][]string{"": {"10.0.0.1"}, "10.0.0.1:4151": {"10.0.0.2"}, "10.0.0.2:4151": {}}[hidden]
		if got := offered(); !slices.Equal(got, want) {
			t.Errorf("with a tombstone on %q: %v, want %v", hidden, got, want)
		}
	}
}

// An admin page deletes at every lookup daemon and at every leader, which share one cluster: none
// of them reports that the topic does not exist.
func TestDeletionAtAnotherNodeIsSeen(t *testing.T) {
	f := threeNodes()
	f.gone = map[[2]string]bool{{"spread", "lost"}: true, {"lost", ""}: true}
	s := serverOf(t, f)
	for _, tt := range []struct {
		h      http.Handler
		target string
		want   int
	}{
		{s.LookupHandler(), "/channel/delete?topic=spread&channel=lost", 200},
		{s.LookupHandler(), "/channel/delete?topic=spread&channel=never", 404},
		{s.Handler(), "/channel/delete?topic=spread&channel=lost", 200},
		{s.Handler(), "/channel/delete?topic=spread&channel=never", 404},
		{s.Handler(), "/topic/delete?topic=lost", 200},
		{s.Handler(), "/topic/delete?topic=never", 404},
		{s.Handler(), "/channel/delete?topic=spread&channel=a", 200},
		{s.Handler(), "/channel/delete?topic=spread&channel=a", 404},
	} {
		if w := ask(tt.h, "POST", tt.target, ""); w.Code != tt.want {
			t.Errorf("%s: got %d %s", tt.target, w.Code, w.Body)
		}
		if strings.HasSuffix(tt.target, "=a") { // as returned by the broker from then on
			f.gone[[2]string{"spread", "a"}] = true
			delete(f.topics["spread"].Channels, "a")
		}
	}
}

func TestLoneNodeDeletesATombstonedTopic(t *testing.T) {
	f := newFake("t")
	s := serverOf(t, f)
	ask(s.LookupHandler(), "POST", "/topic/tombstone?topic=t&node=10.0.0.1:4151", "")
	if w := ask(s.Handler(), "POST", "/topic/delete?topic=t", ""); w.Code != 200 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestTombstonesAreListedForEveryTopic(t *testing.T) {
	w := ask(serverOf(t, threeNodes()).Handler(), "GET", "/nodes", "")
	var a struct {
		Producers []struct {
			BroadcastAddress string `json:"broadcast_address"`
			Topics           []string
			Tombstones       []bool
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	for _, n := range a.Producers {
		if len(n.Topics) != len(n.Tombstones) || n.Topics == nil || n.Tombstones == nil {
			t.Errorf("%s: topics %v, tombstones %v", n.BroadcastAddress, n.Topics, n.Tombstones)
		}
	}
}

// indented reformats JSON for a golden file.
func indented(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
