// Package keyorder queues messages by key: only the first message of each key may be delivered,
// and the next one only after the first has left. Members are small positive numbers assigned and
// reused by the caller; messages, offsets and consumers are unknown here. It is pure, its methods
// take constant time unless documented otherwise, and it is not safe for concurrent use.
//
// Invariants (check in the tests):
//
//   - A member is in at most one line, behind those that joined before it.
//   - May is true of at most one member of a line, its first, and of none while a member of the line
//     is out.
//   - A line without members is forgotten.
package keyorder

// Defaults of Limits.
const (
	maxTracked = 100_000
	maxBytes   = 64 << 20
)

// Limits limit what Lines store: the caller must not add members while they are Full.
type Limits struct {
	Tracked int   // members in lines
	Bytes   int64 // of the members and their keys
}

// DefaultLimits are those of a channel on one partition.
func DefaultLimits() Limits { return Limits{maxTracked, maxBytes} }

// Accounted sizes of a member and a line, including what the caller stores for them.
const (
	memberBytes = 128
	lineBytes   = 160
)

// Lines holds the lines of all keys.
type Lines struct {
	limits  Limits
	byKey   map[string]int32
	lines   []line // line 0 is unused
	free    int32  // list of free lines, linked by head
	members []member
	tracked int
	bytes   int64
}

// line is the list of the members of one key.
type line struct {
	key        string
	head, tail int32
	waiting    int // number of members
	out        int // how often its members are out, in total
}

// member is an entry of a line.
type member struct {
	line, next, prev int32
	out              int32
}

// New returns Lines without members.
func New(limits Limits) *Lines {
	return &Lines{limits: limits, byKey: map[string]int32{}, lines: make([]line, 1)}
}

// Join appends a member, which must be in no line, to the line of its key. The key is copied.
func (l *Lines) Join(m int32, key []byte) {
	for int(m) >= len(l.members) {
		l.members = append(l.members, member{})
	}
	n, known := l.byKey[string(key)]
	if !known {
		n = l.open(string(key))
	}
	q := &l.lines[n]
	l.members[m] = member{line: n, prev: q.tail}
	if q.tail != 0 {
		l.members[q.tail].next = m
	} else {
		q.head = m
	}
	q.tail = m
	q.waiting++
	l.tracked++
	l.bytes += memberBytes
}

// open returns a new line for a key.
func (l *Lines) open(key string) int32 {
	n := l.free
	if n != 0 {
		l.free = l.lines[n].head
	} else {
		l.lines = append(l.lines, line{})
		n = int32(len(l.lines) - 1) //nolint:gosec // at most as many as members
	}
	l.lines[n] = line{key: key}
	l.byKey[key] = n
	l.bytes += lineBytes + int64(len(key))
	return n
}

// Leave removes a member from its line. It returns the member that may now be delivered and could
// not be before, or 0. It does nothing if the member is in no line.
func (l *Lines) Leave(m int32) (next int32) {
	if !l.In(m) {
		return 0
	}
	x := l.members[m]
	l.members[m] = member{}
	q := &l.lines[x.line]
	if x.prev != 0 {
		l.members[x.prev].next = x.next
	} else {
		q.head = x.next
	}
	if x.next != 0 {
		l.members[x.next].prev = x.prev
	} else {
		q.tail = x.prev
	}
	q.waiting--
	q.out -= int(x.out)
	l.tracked--
	l.bytes -= memberBytes
	if q.waiting == 0 {
		l.close(x.line)
		return 0
	}
	return l.next(q)
}

func (l *Lines) close(n int32) {
	q := &l.lines[n]
	delete(l.byKey, q.key)
	l.bytes -= lineBytes + int64(len(q.key))
	*q = line{head: l.free}
	l.free = n
}

// next returns the member of a line that may be delivered, or 0.
func (l *Lines) next(q *line) int32 {
	if q.out > 0 {
		return 0
	}
	return q.head
}

// In reports whether a member is in a line.
func (l *Lines) In(m int32) bool { return int(m) < len(l.members) && l.members[m].line != 0 }

// First returns the first member of a member's line, or 0 if the member is in no line.
func (l *Lines) First(m int32) int32 {
	if !l.In(m) {
		return 0
	}
	return l.lines[l.members[m].line].head
}

// May reports whether a member may be delivered: it is in no line, or it is the first of its line
// and no member of the line is out.
func (l *Lines) May(m int32) bool {
	return !l.In(m) || l.next(&l.lines[l.members[m].line]) == m
}

// Out records that a member was delivered once more. It does nothing if the member is in no line.
func (l *Lines) Out(m int32) {
	if l.In(m) {
		l.members[m].out++
		l.lines[l.members[m].line].out++
	}
}

// Back undoes an Out. It returns the member that may now be delivered, perhaps the same one, or 0.
func (l *Lines) Back(m int32) (next int32) {
	if !l.In(m) || l.members[m].out == 0 {
		return 0
	}
	l.members[m].out--
	q := &l.lines[l.members[m].line]
	q.out--
	return l.next(q)
}

// Len returns the number of members.
func (l *Lines) Len() int { return l.tracked }

// Full reports whether no more members should join.
func (l *Lines) Full() bool { return l.tracked >= l.limits.Tracked || l.bytes >= l.limits.Bytes }

// Longest returns the line with the most members: its key, its first member and its length, or 0
// if there is none. It visits every line.
func (l *Lines) Longest() (key string, first int32, members int) {
	for i := range l.lines {
		if q := &l.lines[i]; q.waiting > members || q.waiting == members && q.waiting > 0 && q.key < key {
			key, first, members = q.key, q.head, q.waiting
		}
	}
	return key, first, members
}
