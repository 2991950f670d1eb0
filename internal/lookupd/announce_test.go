package lookupd

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// catalog is a Catalog that tests change.
type catalog struct {
	mu      sync.Mutex // guards the fields below
	topics  map[string][]string
	changed chan struct{}
}

func newCatalog(topics map[string][]string) *catalog {
	return &catalog{topics: topics, changed: make(chan struct{})}
}

func (c *catalog) Topics() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topics
}

func (c *catalog) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *catalog) set(topics map[string][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics = topics
	close(c.changed)
	c.changed = make(chan struct{})
}

// network is a number of daemons in memory, by address; those that are down refuse connections.
type network struct {
	mu      sync.Mutex // guards the fields below
	daemons map[string]*Server
	conns   []net.Conn
	down    bool
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	srv := n.daemons[address]
	if srv == nil || n.down {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	n.conns = append(n.conns, theirs)
	go srv.handle(context.WithoutCancel(ctx), theirs)
	return ours, nil
}

func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func TestDaemonsLearnServedTopicsAcrossOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dirs := map[string]*Directory{}
		n := &network{daemons: map[string]*Server{}}
		for _, name := range []string{"one:1", "two:1"} {
			dirs[name] = NewDirectory(300*time.Second, time.Minute)
			n.daemons[name] = &Server{Directory: dirs[name], Self: Self{Version: "1.3.0"}, Log: quiet()}
		}
		c := newCatalog(map[string][]string{"t": {"a", "b"}})
		a := NewAnnouncer(AnnouncerOptions{
			Node: node("us"), Addresses: []string{"one:1", "two:1"}, Catalog: c, Log: quiet(), Dial: n.dial,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.Run(ctx) }()
		expect := func(moment, address string, served ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, nt := range dirs[address].Nodes(time.Now()) {
				got = append(got, nt.Topics...)
			}
			if !slices.Equal(got, served) {
				t.Errorf("%s: %s knows %v, want %v", moment, address, got, served)
			}
		}
		expect("at first", "one:1", "t")
		expect("at first", "two:1", "t")
		if got := dirs["one:1"].Channels("t"); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("channels %v", got)
		}
		c.set(map[string][]string{"t": {"a"}, "u": nil})
		expect("after a change", "one:1", "t", "u")
		<-time.After(time.Hour)
		expect("after an hour of pings", "one:1", "t", "u")
		n.cut(true)
		expect("while cut off", "one:1")
		<-time.After(10 * time.Minute)
		n.cut(false)
		<-time.After(lastRetry)
		expect("after the outage", "one:1", "t", "u")
		a.SetAddresses([]string{"two:1"})
		expect("no longer wanted", "one:1")
		expect("still wanted", "two:1", "t", "u")
		cancel()
		<-done
		expect("stopped", "two:1")
	})
}

func TestDifferenceIsCommandsInOrder(t *testing.T) {
	got := difference(
		registrations(map[string][]string{"gone": {"c"}, "kept": {"old", "same"}}),
		registrations(map[string][]string{"new": {"c"}, "kept": {"same", "young"}}))
	want := []string{
		"UNREGISTER kept old", "UNREGISTER gone c", "UNREGISTER gone",
		"REGISTER kept young", "REGISTER new", "REGISTER new c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewTopicGetsTheChannelsThatDaemonsKnow(t *testing.T) {
	a := NewAnnouncer(AnnouncerOptions{Catalog: newCatalog(nil), Log: quiet()})
	for address, channels := range map[string][]string{"x": {"a", "b"}, "y": {"b", "c"}} {
		d := NewDirectory(time.Hour, time.Hour)
		for _, c := range channels {
			if err := d.Register(0, "t", c); err != nil {
				t.Fatal(err)
			}
		}
		srv := httptest.NewServer(Handler(d, "1.3.0"))
		defer srv.Close()
		u, err := url.Parse(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			t.Fatal(err)
		}
		a.check(address, Self{BroadcastAddress: u.Hostname(), HTTPPort: port})
	}
	got, err := a.Channels(t.Context(), "t")
	if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%v, %v", got, err)
	}
	a.check("z", Self{BroadcastAddress: "127.0.0.1", HTTPPort: 1})
	if got, err := a.Channels(t.Context(), "t"); err == nil || len(got) != 3 {
		t.Errorf("with one dead: %v, %v", got, err)
	}
}

func TestRefusingDaemonIsNotConnected(t *testing.T) {
	for _, reply := range []string{"E_BAD_BODY IDENTIFY missing fields", "OK"} {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			buffer := make([]byte, 4096)
			if _, err := theirs.Read(buffer); err == nil {
				_ = writeAnswer(theirs, []byte(reply))
			}
		}()
		a := NewAnnouncer(AnnouncerOptions{Catalog: newCatalog(nil), Log: quiet(), Dial: func(context.Context, string, string) (net.Conn, error) { return ours, nil }})
		if err := a.announce(t.Context(), "x"); err == nil {
			t.Errorf("%q was accepted", reply)
		}
	}
}
