package meta

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
)

// A snapshot is lines of JSON between a header and a checksum:
//
//	+-------------------+-----------------+
//	| magic "brkdmeta"  | version, u32le  |
//	+-------------------+-----------------+
//	| {"index":…,"cluster":{…},"settings":{…},"nodes":2,"topics":3}\n |
//	| one line for each node, by id                                   |
//	| one line for each topic, by name, with partitions and channels  |
//	| one line for each saved position of a channel, by index         |
//	| one line for each topic in the trash, by index                  |
//	| one line for each act of an operator, by index                  |
//	| one line for each event, by index                               |
//	| one line for each event of leaders and replicas, by index       |
//	| one line with who may do what, where access is true in the head |
//	+-----------------------------------------------------------------+
//	| CRC-32C of all before, u32le |
//	+------------------------------+
const (
	snapshotMagic  = "brkdmeta"
	snapshotHeader = len(snapshotMagic) + 4
	// snapshotVersion is the format that this build writes, and the newest that
	// it reads.
	snapshotVersion = 1
	// maxSnapshotBytes is the maximum size of a snapshot that is read.
	maxSnapshotBytes = 1 << 30
)

type snapshotHead struct {
	Index    uint64            `json:"index"`
	Cluster  Cluster           `json:"cluster"`
	Settings map[string]string `json:"settings,omitempty"`
	Nodes    int               `json:"nodes"`
	Topics   int               `json:"topics"`
	Saved    int               `json:"saved,omitempty"`
	Trash    int               `json:"trash,omitempty"`
	Acts     int               `json:"acts,omitempty"`
	Events   int               `json:"events,omitempty"`
	Flux     int               `json:"flux,omitempty"`
	Access   bool              `json:"access,omitempty"`
}

type snapshotTopic struct {
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation"`
	Version     uint64      `json:"version"`
	Paused      bool        `json:"paused,omitempty"`
	Tightened   bool        `json:"tightened,omitempty"`
	Config      TopicConfig `json:"config"`
	Partitions  []Partition `json:"partitions"`
	Channels    []Channel   `json:"channels,omitempty"`
}

// Snapshot returns the current state, to be kept or written while the original changes. It copies a
// pointer for each node: the nodes themselves and all topics are shared, because they never change.
func (s *State) Snapshot() *State {
	c := *s
	c.nodes = slices.Clone(s.nodes)
	c.past = s.past.clip()
	return &c
}

// Encode writes the state as a snapshot. Equal states write equal bytes. An error is w's.
func (s *State) Encode(w io.Writer) error {
	sum := crc32.New(castagnoli)
	b := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	b.WriteString(snapshotMagic) // b keeps the first error, and Flush returns it
	b.Write(binary.LittleEndian.AppendUint32(nil, snapshotVersion))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	head := snapshotHead{
		Index: s.index, Cluster: s.cluster, Settings: s.settings.values, Nodes: len(s.nodes), Topics: s.topics.count, Saved: len(s.saved), Trash: len(s.trash),
		Acts: len(s.past.acts), Events: len(s.past.events), Flux: len(s.past.flux), Access: s.access != nil,
	}
	if err := e.Encode(head); err != nil {
		return err
	}
	for _, n := range s.nodes {
		if err := e.Encode(n); err != nil {
			return err
		}
	}
	for t := range s.topics.all() {
		if err := e.Encode(t.snapshot()); err != nil {
			return err
		}
	}
	for _, v := range s.saved {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	if err := TrashOf(s).encode(e); err != nil {
		return err
	}
	if err := errors.Join(s.past.encode(e), encodeAccess(s, e)); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

func (t *Topic) snapshot() snapshotTopic {
	out := snapshotTopic{
		Name: t.Name, Incarnation: t.Incarnation, Version: t.Version, Paused: t.Paused, Tightened: t.Tightened, Config: t.Config, Partitions: t.Partitions,
	}
	for _, name := range slices.Sorted(maps.Keys(t.Channels)) {
		out.Channels = append(out.Channels, *t.Channels[name])
	}
	return out
}

// DecodeSnapshot decodes what Encode wrote, to the end of r. The error wraps ErrCorrupt for bytes
// that are not what was written, ErrUnknownSnapshot for a newer format, and failure.FeatureLevel for a feature
// level that this program does not support. It never returns a state other than the one written.
func DecodeSnapshot(r io.Reader) (*State, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSnapshotBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	n := len(data) - 4
	switch {
	case n < snapshotHeader || len(data) > maxSnapshotBytes:
		return nil, fmt.Errorf("%w: truncated snapshot, %d bytes", ErrCorrupt, len(data))
	case string(data[:len(snapshotMagic)]) != snapshotMagic:
		return nil, fmt.Errorf("%w: not a snapshot", ErrCorrupt)
	case crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(data[n:]):
		return nil, fmt.Errorf("%w: snapshot checksum mismatch", ErrCorrupt)
	}
	if v := binary.LittleEndian.Uint32(data[len(snapshotMagic):]); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d", ErrUnknownSnapshot, v)
	}
	s, err := decodeLines(data[snapshotHeader:n])
	if errors.Is(err, failure.FeatureLevel) {
		return nil, err // it is intact: written by a newer program
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return s, nil
}

// peekLevel returns failure.FeatureLevel if a snapshot belongs to a cluster whose feature level this program
// does not support. It may then have unknown fields and lines.
func peekLevel(body []byte) error {
	var head struct {
		Cluster struct {
			Level level.Level `json:"level"`
		} `json:"cluster"`
	}
	line, _, _ := bytes.Cut(body, []byte("\n"))
	if json.Unmarshal(line, &head) != nil {
		return nil // strict decoding reports the error
	}
	return checkLevel(head.Cluster.Level, level.Supported())
}

func decodeLines(body []byte) (*State, error) {
	next := func(v any) error {
		line, rest, ok := bytes.Cut(body, []byte("\n"))
		if !ok {
			return io.ErrUnexpectedEOF
		}
		body = rest
		return DecodeStrict(line, v)
	}
	if err := peekLevel(body); err != nil {
		return nil, err
	}
	var head snapshotHead
	if err := next(&head); err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	s := &State{index: head.Index, cluster: head.Cluster}
	if err := validateSettings(head.Settings); err != nil {
		return nil, err
	}
	s.settings = s.settings.with(head.Settings)
	if head.Nodes < 0 || head.Nodes > maxNodes || head.Topics < 0 || head.Topics > maxTopics || head.Saved < 0 || head.Saved > maxSaved || head.Trash < 0 || head.Trash > maxTrashTopics {
		return nil, fmt.Errorf("%d nodes, %d topics, %d saved positions, %d topics in the trash", head.Nodes, head.Topics, head.Saved, head.Trash)
	}
	for range head.Nodes {
		n := &Node{}
		if err := next(n); err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
		if err := n.restore(s); err != nil {
			return nil, err
		}
	}
	for range head.Topics {
		var t snapshotTopic
		if err := next(&t); err != nil {
			return nil, fmt.Errorf("topic: %w", err)
		}
		if err := t.restore(s); err != nil {
			return nil, fmt.Errorf("topic %q: %w", t.Name, err)
		}
	}
	for range head.Saved {
		v := &Saved{}
		if err := next(v); err != nil {
			return nil, fmt.Errorf("saved positions: %w", err)
		}
		if err := v.restore(s); err != nil {
			return nil, err
		}
	}
	if err := decodeTrash(s, head.Trash, next); err != nil {
		return nil, err
	}
	if err := s.past.decode(&head, next); err != nil {
		return nil, err
	}
	if err := decodeAccess(s, head.Access, next); err != nil {
		return nil, err
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("%d trailing bytes", len(body))
	}
	return s, nil
}

// restore appends a node from a snapshot.
func (n *Node) restore(s *State) error {
	if err := n.validate(); err != nil {
		return err
	}
	if !n.State.valid() || !n.Intent.valid() {
		return fmt.Errorf("%w: node state %q, intent %q", failure.InvalidConfig, n.State, n.Intent)
	}
	if k := len(s.nodes); k > 0 && s.nodes[k-1].ID >= n.ID {
		return fmt.Errorf("node %q out of order", n.ID)
	}
	s.nodes = append(s.nodes, n)
	return nil
}

// restore appends a topic from a snapshot.
func (in *snapshotTopic) restore(s *State) error {
	if last := s.topics.last(); last != nil && last.Name >= in.Name {
		return fmt.Errorf("out of order")
	}
	t, err := in.topic(s)
	if err != nil {
		return err
	}
	s.topics.put(t)
	return nil
}

// topic returns the decoded topic.
func (in *snapshotTopic) topic(s *State) (*Topic, error) {
	if !NSQName(in.Name) {
		return nil, failure.InvalidName
	}
	if err := in.Config.Validate(); err != nil {
		return nil, err
	}
	if len(in.Partitions) != in.Config.Partitions {
		return nil, fmt.Errorf("%d partitions of %d", len(in.Partitions), in.Config.Partitions)
	}
	t := &Topic{
		Name: in.Name, Incarnation: in.Incarnation, Config: in.Config, Paused: in.Paused, Tightened: in.Tightened, Version: in.Version,
		Partitions: slices.Clone(in.Partitions),
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if err := validISR(p); err != nil {
			return nil, fmt.Errorf("partition %d: %w", i, err)
		}
		if err := validMove(p); err != nil {
			return nil, fmt.Errorf("partition %d: %w", i, err)
		}
		p.Replicas, p.ISR, p.Leader = s.intern(p.Replicas...), s.intern(p.ISR...), s.intern(p.Leader)[0]
		if slices.Equal(p.Replicas, p.ISR) {
			p.ISR = p.Replicas
		}
		p.Adding, p.Removing = s.intern(p.Adding...), s.intern(p.Removing...)
		for k := range p.Suspects {
			p.Suspects[k].Node = s.intern(p.Suspects[k].Node)[0]
		}
	}
	if len(in.Channels) > 0 {
		t.Channels = make(map[string]*Channel, len(in.Channels))
	}
	for i, ch := range in.Channels {
		if err := validateChannel(t.Name, ch.Name); err != nil {
			return nil, err
		}
		if err := errors.Join(validatePolicy(ch.Policy), validateFilter(ch.Filter)); err != nil {
			return nil, fmt.Errorf("channel %q: %w", ch.Name, err)
		}
		if i > 0 && strings.Compare(in.Channels[i-1].Name, ch.Name) >= 0 {
			return nil, fmt.Errorf("channel %q out of order", ch.Name)
		}
		t.Channels[ch.Name] = &ch
	}
	return t, nil
}

// validISR checks the invariant of a partition's in-sync set and leader. The set is empty if its
// last member lost its disk.
func validISR(p *Partition) error {
	for _, id := range p.ISR {
		if !slices.Contains(p.Replicas, id) {
			return fmt.Errorf("%w: %q is not a replica", failure.InvalidISR, id)
		}
	}
	if p.Leader != "" && !slices.Contains(p.ISR, p.Leader) {
		return fmt.Errorf("%w: leader %q missing", failure.InvalidISR, p.Leader)
	}
	return nil
}
