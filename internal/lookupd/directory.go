package lookupd

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/meta"
)

// errFull is returned when a registration would pass maxNames.
var errFull = errors.New("too many topics and channels")

// maxNames is the most topics and channels that a Directory holds.
const maxNames = 1_000_000

// Session names a connection of a node. The zero Session names none.
type Session uint64

// Directory is what a lookup daemon knows. Its methods may be called by many
// goroutines at once; what they return belongs to the caller.
type Directory struct {
	inactive  time.Duration // a node silent for this long is left out
	tombstone time.Duration // how long a tombstone hides a node

	mu     sync.Mutex // guards all below
	last   Session
	names  int
	nodes  map[Session]*member
	topics map[string]*topicEntry
}

type member struct {
	node     nsqform.Producer
	lastSeen time.Time
	topics   map[string]time.Time // by topic: when it was tombstoned, or zero
}

type topicEntry struct {
	nodes    map[Session]struct{}
	channels map[string]map[Session]struct{}
}

// NewDirectory returns an empty directory. inactive is after how long a silent
// node is left out of answers, tombstone how long a tombstone lasts.
func NewDirectory(inactive, tombstone time.Duration) *Directory {
	return &Directory{
		inactive: inactive, tombstone: tombstone,
		nodes: map[Session]*member{}, topics: map[string]*topicEntry{},
	}
}

// Join adds a node and returns the name of its session.
func (d *Directory) Join(n nsqform.Producer, now time.Time) Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	d.nodes[d.last] = &member{node: n, lastSeen: now, topics: map[string]time.Time{}}
	return d.last
}

// Seen notes a sign of life.
func (d *Directory) Seen(s Session, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.nodes[s]; m != nil {
		m.lastSeen = now
	}
}

// Leave forgets a node and all that it registered.
func (d *Directory) Leave(s Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.nodes[s]
	if m == nil {
		return
	}
	for topic := range m.topics {
		d.unregisterTopicLocked(s, m, topic)
	}
	delete(d.nodes, s)
}

// Register notes that a node serves a topic, and a channel of it if channel is
// not empty. With the zero Session it only makes the names known. The names
// must be valid.
func (d *Directory) Register(s Session, topic, channel string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[topic]
	more := 0
	if t == nil {
		more++
	}
	if channel != "" && (t == nil || t.channels[channel] == nil) {
		more++
	}
	if d.names+more > maxNames {
		return errFull
	}
	d.names += more
	if t == nil {
		t = &topicEntry{nodes: map[Session]struct{}{}, channels: map[string]map[Session]struct{}{}}
		d.topics[topic] = t
	}
	if channel != "" && t.channels[channel] == nil {
		t.channels[channel] = map[Session]struct{}{}
	}
	m := d.nodes[s]
	if m == nil {
		return nil
	}
	t.nodes[s] = struct{}{}
	if channel != "" {
		t.channels[channel][s] = struct{}{}
	}
	if _, known := m.topics[topic]; !known {
		m.topics[topic] = time.Time{}
	}
	return nil
}

// Unregister removes a node's registration of a channel, or of a topic with all its channels if
// channel is empty.
func (d *Directory) Unregister(s Session, topic, channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, t := d.nodes[s], d.topics[topic]
	if m == nil || t == nil {
		return
	}
	if channel == "" {
		d.unregisterTopicLocked(s, m, topic)
		return
	}
	d.unregisterChannelLocked(s, t, channel)
}

func (d *Directory) unregisterTopicLocked(s Session, m *member, topic string) {
	delete(m.topics, topic)
	t := d.topics[topic]
	if t == nil {
		return
	}
	if _, held := t.nodes[s]; !held {
		return
	}
	for channel := range t.channels {
		d.unregisterChannelLocked(s, t, channel)
	}
	delete(t.nodes, s)
	if len(t.nodes) == 0 && meta.IsEphemeral(topic) {
		d.forgetLocked(topic)
	}
}

func (d *Directory) unregisterChannelLocked(s Session, t *topicEntry, channel string) {
	holders := t.channels[channel]
	if _, held := holders[s]; !held {
		return
	}
	delete(holders, s)
	if len(holders) == 0 && meta.IsEphemeral(channel) {
		delete(t.channels, channel)
		d.names--
	}
}

func (d *Directory) forgetLocked(topic string) {
	d.names -= 1 + len(d.topics[topic].channels)
	delete(d.topics, topic)
}

// DeleteTopic forgets a topic, its channels and its nodes.
func (d *Directory) DeleteTopic(topic string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[topic]
	if t == nil {
		return
	}
	for s := range t.nodes {
		delete(d.nodes[s].topics, topic)
	}
	d.forgetLocked(topic)
}

// DeleteChannel forgets a channel and reports whether it existed.
func (d *Directory) DeleteChannel(topic, channel string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[topic]
	if t == nil || t.channels[channel] == nil {
		return false
	}
	delete(t.channels, channel)
	d.names--
	return true
}

// Tombstone hides the nodes at address (host:http port) from the lookup of a
// topic for a while.
func (d *Directory) Tombstone(topic, address string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.nodes {
		if _, serves := m.topics[topic]; serves && m.node.HTTP() == address {
			m.topics[topic] = now
		}
	}
}

// Topics returns the known topics, sorted.
func (d *Directory) Topics() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedKeys(d.topics)
}

// Channels returns the known channels of a topic, sorted.
func (d *Directory) Channels(topic string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.topics[topic]; t != nil {
		return sortedKeys(t.channels)
	}
	return []string{}
}

// Lookup returns the channels of a topic and the nodes to connect to for it;
// ok is false for a topic that is not known.
func (d *Directory) Lookup(topic string, now time.Time) (channels []string, nodes []nsqform.Producer, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[topic]
	if t == nil {
		return nil, nil, false
	}
	nodes = []nsqform.Producer{}
	for _, s := range slices.Sorted(maps.Keys(t.nodes)) {
		m := d.nodes[s]
		if d.activeLocked(m, now) && !d.hidden(m.topics[topic], now) {
			nodes = append(nodes, m.node)
		}
	}
	return sortedKeys(t.channels), nodes, true
}

// NodeTopics is a node with what it serves; the two slices have equal length.
type NodeTopics struct {
	nsqform.Producer
	Tombstones []bool   `json:"tombstones"`
	Topics     []string `json:"topics"`
}

// Nodes returns the nodes that are alive.
func (d *Directory) Nodes(now time.Time) []NodeTopics {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []NodeTopics{}
	for _, s := range slices.Sorted(maps.Keys(d.nodes)) {
		m := d.nodes[s]
		if !d.activeLocked(m, now) {
			continue
		}
		nt := NodeTopics{Producer: m.node, Topics: sortedKeys(m.topics), Tombstones: []bool{}}
		for _, topic := range nt.Topics {
			nt.Tombstones = append(nt.Tombstones, d.hidden(m.topics[topic], now))
		}
		list = append(list, nt)
	}
	return list
}

// Registration is one node's line in a dump of the directory.
type Registration struct {
	nsqform.Producer
	ID           string `json:"id"`
	LastUpdate   int64  `json:"last_update"` // ns since 1970
	Tombstoned   bool   `json:"tombstoned"`
	TombstonedAt string `json:"tombstoned_at"`
}

// Dump returns everything, by "category:key:subkey".
func (d *Directory) Dump(now time.Time) map[string][]Registration {
	d.mu.Lock()
	defer d.mu.Unlock()
	dump := map[string][]Registration{}
	add := func(key, topic string, sessions map[Session]struct{}) {
		list := []Registration{}
		for _, s := range slices.Sorted(maps.Keys(sessions)) {
			list = append(list, d.registrationLocked(d.nodes[s], topic, now))
		}
		dump[key] = list
	}
	if len(d.nodes) > 0 {
		all := map[Session]struct{}{}
		for s := range d.nodes {
			all[s] = struct{}{}
		}
		add("client::", "", all)
	}
	for topic, t := range d.topics {
		add("topic:"+topic+":", topic, t.nodes)
		for channel, holders := range t.channels {
			add("channel:"+topic+":"+channel, "", holders)
		}
	}
	return dump
}

func (d *Directory) registrationLocked(m *member, topic string, now time.Time) Registration {
	at := m.topics[topic]
	r := Registration{Producer: m.node, ID: m.node.RemoteAddress, LastUpdate: m.lastSeen.UnixNano(), Tombstoned: d.hidden(at, now)}
	if !at.IsZero() {
		r.TombstonedAt = at.Format(time.RFC3339)
	}
	return r
}

func (d *Directory) activeLocked(m *member, now time.Time) bool {
	return now.Sub(m.lastSeen) <= d.inactive
}

func (d *Directory) hidden(since, now time.Time) bool {
	return !since.IsZero() && now.Sub(since) < d.tombstone
}

// sortedKeys returns the keys of m as a slice that is never nil: clients want
// an empty array, not null.
func sortedKeys[V any](m map[string]V) []string {
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, strings.Compare)
	return keys
}
