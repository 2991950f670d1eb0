package lookupd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
)

func at(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }

func node(name string) nsqform.Producer {
	return nsqform.Producer{BroadcastAddress: name, TCPPort: 4150, HTTPPort: 4151, Version: "1.3.0", RemoteAddress: name + ":9"}
}

func hosts(nodes []nsqform.Producer) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.BroadcastAddress)
	}
	return strings.Join(names, " ")
}

func TestSilentNodeIsOmittedUntilItPings(t *testing.T) {
	d := NewDirectory(300*time.Second, 45*time.Second)
	s := d.Join(node("a"), at(0))
	if err := d.Register(s, "t", "c"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		now  int
		want string
	}{{0, "a"}, {300, "a"}, {301, ""}} {
		channels, nodes, known := d.Lookup("t", at(step.now))
		if hosts(nodes) != step.want || !known || !slices.Equal(channels, []string{"c"}) || nodes == nil {
			t.Errorf("at %d: %q %v %v", step.now, hosts(nodes), channels, known)
		}
		if got := len(d.Nodes(at(step.now))); (got == 1) != (step.want != "") {
			t.Errorf("at %d: %d nodes", step.now, got)
		}
	}
	d.Seen(s, at(400))
	if _, nodes, _ := d.Lookup("t", at(401)); hosts(nodes) != "a" {
		t.Errorf("after a ping: %q", hosts(nodes))
	}
}

func TestLostConnectionRemovesRegistrations(t *testing.T) {
	d := NewDirectory(time.Hour, time.Minute)
	s := d.Join(node("a"), at(0))
	for _, r := range []registration{{"t", "c"}, {"t", "e#ephemeral"}, {"e#ephemeral", "c"}} {
		if err := d.Register(s, r.topic, r.channel); err != nil {
			t.Fatal(err)
		}
	}
	d.Leave(s)
	d.Leave(s)
	if got := d.Topics(); !slices.Equal(got, []string{"t"}) {
		t.Errorf("topics %v", got)
	}
	if got := d.Channels("t"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("channels %v", got)
	}
	if _, nodes, known := d.Lookup("t", at(0)); len(nodes) != 0 || !known {
		t.Errorf("lookup %v %v", nodes, known)
	}
}

func TestTombstoneHidesOneNodeForOneTopicForAWhile(t *testing.T) {
	d := NewDirectory(time.Hour, 45*time.Second)
	for _, name := range []string{"a", "b"} {
		s := d.Join(node(name), at(0))
		for _, topic := range []string{"t", "u"} {
			if err := d.Register(s, topic, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.Tombstone("t", "a:4151", at(10))
	d.Tombstone("t", "stranger:4151", at(10))
	for _, step := range []struct {
		topic string
		now   int
		want  string
	}{{"t", 10, "b"}, {"t", 54, "b"}, {"t", 55, "a b"}, {"u", 10, "a b"}} {
		if _, nodes, _ := d.Lookup(step.topic, at(step.now)); hosts(nodes) != step.want {
			t.Errorf("%s at %d: %q, want %q", step.topic, step.now, hosts(nodes), step.want)
		}
	}
	first := d.Nodes(at(11))[0]
	if !slices.Equal(first.Topics, []string{"t", "u"}) || !slices.Equal(first.Tombstones, []bool{true, false}) {
		t.Errorf("%+v", first)
	}
	if dump := d.Dump(at(11)); !dump["topic:t:"][0].Tombstoned || dump["topic:t:"][0].TombstonedAt == "" || len(dump["client::"]) != 2 {
		t.Errorf("%+v", dump)
	}
}

// model is a naive implementation of the directory.
type model struct {
	names map[registration]bool             // known topics and channels
	held  map[Session]map[registration]bool // registrations
}

func (m *model) dropEphemeral(r registration) {
	ephemeral := strings.HasSuffix(r.String(), "#ephemeral")
	for _, held := range m.held {
		if held[r] {
			return
		}
	}
	if ephemeral {
		m.forget(r)
	}
}

func (m *model) forget(r registration) {
	for known := range m.names {
		if known == r || r.channel == "" && known.topic == r.topic {
			delete(m.names, known)
			for _, held := range m.held {
				delete(held, known)
			}
		}
	}
}

func (m *model) unregister(s Session, r registration) {
	for _, held := range slices.SortedFunc(maps.Keys(m.held[s]), func(a, b registration) int { return strings.Compare(b.channel, a.channel) }) {
		if held == r || r.channel == "" && held.topic == r.topic {
			delete(m.held[s], held)
			m.dropEphemeral(held)
		}
	}
}

func TestDirectoryMatchesModel(t *testing.T) {
	random := testrand.New(t)
	d := NewDirectory(time.Hour, time.Minute)
	m := model{names: map[registration]bool{}, held: map[Session]map[registration]bool{}}
	topics := []string{"t", "u", "e#ephemeral"}
	channels := []string{"", "c", "x#ephemeral"}
	for step := range 20_000 {
		r := registration{topics[random.IntN(3)], channels[random.IntN(3)]}
		sessions := slices.Sorted(maps.Keys(m.held))
		var s Session
		if len(sessions) > 0 {
			s = sessions[random.IntN(len(sessions))]
		}
		switch action := random.IntN(12); {
		case action == 0 && len(sessions) < 4:
			s := d.Join(node("n"), at(0))
			m.held[s] = map[registration]bool{}
		case action == 1 && s != 0:
			d.Leave(s)
			for _, topic := range topics {
				m.unregister(s, registration{topic, ""})
			}
			delete(m.held, s)
		case action == 2:
			d.DeleteTopic(r.topic)
			m.forget(registration{r.topic, ""})
		case action == 3 && r.channel != "":
			if had := d.DeleteChannel(r.topic, r.channel); had != m.names[r] {
				t.Fatalf("step %d: delete %v said %v", step, r, had)
			}
			m.forget(r)
		case action < 6 && s != 0:
			d.Unregister(s, r.topic, r.channel)
			m.unregister(s, r)
		default:
			if err := d.Register(s, r.topic, r.channel); err != nil {
				t.Fatal(err)
			}
			for _, known := range []registration{{r.topic, ""}, r} {
				m.names[known] = true
				if s != 0 {
					m.held[s][known] = true
				}
			}
		}
		compare(t, step, d, &m)
	}
}

func compare(t *testing.T, step int, d *Directory, m *model) {
	t.Helper()
	var got, want []string
	for _, topic := range d.Topics() {
		_, nodes, _ := d.Lookup(topic, at(0))
		got = append(got, fmt.Sprint(topic, " ", len(nodes)))
		for _, c := range d.Channels(topic) {
			got = append(got, topic+" "+c)
		}
	}
	for r := range m.names {
		line := r.String()
		if r.channel == "" {
			nodes := 0
			for _, held := range m.held {
				if held[r] {
					nodes++
				}
			}
			line = fmt.Sprint(r.topic, " ", nodes)
		}
		want = append(want, line)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("step %d: %s", step, diff)
	}
	if d.names != len(want) {
		t.Fatalf("step %d: %d names counted, %d there", step, d.names, len(want))
	}
}
