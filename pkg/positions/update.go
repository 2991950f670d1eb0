package positions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/changes"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Update is what changed of a snapshot since the snapshot or update before it.
// It is made where a whole snapshot would be large. Numbers are unsigned varints:
//
//	+-------------+-------+-------+--------------+-----------+-----------+
//	| version = 4 | stamp | flags | backlog from | addressed | paused at |   paused at only with flag 1
//	+-------------+-------+-------+--------------+-----------+-----------+
//	+---------+---------------+------+
//	| removed | name length   | name |   n, then each channel that is gone
//	+---------+---------------+------+
//	+---------+---------------------------------------------------------------+
//	| whole   | as in a snapshot                                              |
//	+---------+---------------------------------------------------------------+
//	+---------+-------------+------+---------+-------+---------------+--------+
//	| changed | name length | name | version | moves | change length | change |
//	+---------+-------------+------+---------+-------+---------------+--------+
//
// Channels that it does not name are unchanged. It has no checksum of its own:
// the file or the request that holds it has one.
type Update struct {
	Header  Snapshot        // its Channels are those that are new, or whose changes are not known
	Removed []string        // names of channels
	Changed []ChannelChange // of other channels
	stamp   stamp           // 0: it was not shared
}

// ChannelChange is the change of one channel.
type ChannelChange struct {
	Name    string
	Version uint64
	Moves   uint64
	Change  position.Change
}

const (
	updateVersion = 4 // a record's first byte where others have advance.Version
	// maxUpdateBytes is the maximum size of an encoded update. A larger one is stored and shared as
	// a snapshot.
	maxUpdateBytes = changes.MaxChange

	minNameBytes   = 1
	minChangeBytes = 4
)

// errBadUpdate is wrapped by the errors of decodeUpdate.
var errBadUpdate = errors.New("invalid position update")

// encode returns the encoded update. Complete channels are those of the header. The error is marked
// fate.Refused.
func (u *Update) encode() ([]byte, error) {
	dst := []byte{updateVersion}
	dst = binary.AppendUvarint(dst, uint64(u.stamp))
	dst = binary.AppendUvarint(dst, uint64(flagsOf(u.Header)))
	dst = binary.AppendUvarint(dst, uint64(u.Header.BacklogFrom))
	dst = binary.AppendUvarint(dst, uint64(u.Header.Addressed))
	if u.Header.PausedAt != nil {
		dst = binary.AppendUvarint(dst, uint64(*u.Header.PausedAt))
	}
	dst = binary.AppendUvarint(dst, uint64(len(u.Removed)))
	for _, name := range u.Removed {
		dst = appendField(dst, []byte(name))
	}
	dst = binary.AppendUvarint(dst, uint64(len(u.Header.Channels)))
	dst, err := appendChannels(dst, u.Header.Channels)
	if err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, uint64(len(u.Changed)))
	var change []byte
	for _, c := range u.Changed {
		if change, err = c.Change.AppendBinary(change[:0]); err != nil {
			return nil, err
		}
		dst = appendField(appendChannelHead(dst, c.Name, c.Version, c.Moves), change)
	}
	if len(dst) > maxUpdateBytes {
		return nil, fate.Mark(fmt.Errorf("position update too large: %d bytes", len(dst)), fate.Refused)
	}
	return dst, nil
}

// decodeUpdate decodes exactly one update and keeps no reference to its bytes.
func decodeUpdate(data []byte) (Update, error) {
	if len(data) == 0 || data[0] != updateVersion {
		return Update{}, fmt.Errorf("%w: unknown version", errBadUpdate)
	}
	d := imageReader{fields.Reader{Rest: data[1:]}}
	u := Update{stamp: stamp(d.Uvarint())}
	flags := d.Uvarint()
	if flags&^(flagPaused|flagLost) != 0 {
		return Update{}, fmt.Errorf("%w: unknown flags %#x", errBadUpdate, flags)
	}
	u.Header = Snapshot{BacklogFrom: seq.Offset(d.Uvarint()), Addressed: seq.Offset(d.Uvarint()), Lost: flags&flagLost != 0}
	if flags&flagPaused != 0 {
		u.Header.PausedAt = new(seq.Offset(d.Uvarint()))
	}
	for range d.Count(minNameBytes) {
		u.Removed = append(u.Removed, d.Text())
	}
	u.Header.Channels = d.channels()
	for range d.Count(minChangeBytes) {
		c := ChannelChange{Name: d.Text(), Version: d.Uvarint(), Moves: d.Uvarint()}
		d.unmarshal(c.Name, &c.Change)
		u.Changed = append(u.Changed, c)
	}
	if err := d.End(errBadUpdate, "fields"); err != nil {
		return Update{}, err
	}
	return u, nil
}

// mirror is a snapshot that updates and changes of ordered channels keep current. Updates are
// collected and applied together, so that a large position is not copied for each of them.
type mirror struct {
	snap    Snapshot
	pending map[string]*pendingChanges // by channel, of positions in snap
}

// pendingChanges are changes of one channel between two moves by an operator.
type pendingChanges struct {
	position.Changes
	version, moves uint64
}

// foldAfter is the number of collected entries from which on they are applied before they are
// needed.
const foldAfter = 4 << 10

// set sets the mirror to a snapshot.
func (m *mirror) set(s Snapshot) { m.snap, m.pending = s, nil }

// update adds an update. It retains what u refers to.
func (m *mirror) update(u Update) {
	s := &m.snap
	s.BacklogFrom, s.PausedAt, s.Lost = u.Header.BacklogFrom, u.Header.PausedAt, u.Header.Lost
	s.Addressed = u.Header.Addressed
	for _, name := range u.Removed {
		delete(m.pending, name)
		if i, found := s.find(name); found {
			s.Channels = slices.Delete(s.Channels, i, i+1)
		}
	}
	for _, c := range u.Header.Channels {
		m.fold(c.Name)
		c.keep(s)
		if i, found := s.find(c.Name); found {
			s.Channels[i] = c
		} else {
			s.Channels = slices.Insert(s.Channels, i, c)
		}
	}
	for _, c := range u.Changed {
		m.change(c)
	}
}

// change adds a change of a channel.
func (m *mirror) change(c ChannelChange) {
	at := m.snap.meet(c.Name, c.Version, c.Moves, c.Change.Floor)
	if at == nil {
		return
	}
	p := m.pending[c.Name]
	if p == nil || p.version != c.Version || p.moves != c.Moves {
		p = &pendingChanges{version: c.Version, moves: c.Moves}
		if m.pending == nil {
			m.pending = map[string]*pendingChanges{}
		}
		m.pending[c.Name] = p
	}
	p.Add(c.Change)
	at.Position.AdvanceTo(c.Change.Floor)
	if n := p.Len(); n > foldAfter && n > at.Position.Len()/4 {
		m.fold(c.Name)
	}
}

// advance adds a finished message of an ordered channel.
func (m *mirror) advance(a advance.Change) {
	m.fold(a.Channel)
	m.snap.apply(a)
}

// fold applies the collected changes of a channel.
func (m *mirror) fold(name string) {
	p := m.pending[name]
	if p == nil {
		return
	}
	delete(m.pending, name)
	i, found := m.snap.find(name)
	if !found || m.snap.Channels[i].Version != p.version || m.snap.Channels[i].Moves != p.moves {
		return
	}
	c := &m.snap.Channels[i]
	before := c.Position
	p.ApplyTo(&c.Position)
	c.Position.Keep(&before) // a finish is never undone
}

// snapshot returns the snapshot with all updates. It shares memory with the mirror.
func (m *mirror) snapshot() *Snapshot {
	for name := range m.pending {
		m.fold(name)
	}
	return &m.snap
}
