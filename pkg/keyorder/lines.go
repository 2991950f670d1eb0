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

// The defaults of Limits.
const (
	maxTracked = 100_000
	maxBytes   = 64 << 20
)

// Limits bound what Lines remember: whoever feeds them stops while they are Full.
type Limits struct {
	Tracked int   // members in lines
	Bytes   int64 // that they and their keys take
}

// DefaultLimits are those of a channel on one partition.
func DefaultLimits() Limits { return Limits{maxTracked, maxBytes} }

// What a member and a line are counted as, with what its caller keeps of it.
const (
	memberBytes = 128
	lineBytes   = 160
)

// Lines are the lines of all keys.
type Lines struct {
	limits  Limits
	byKey   map[string]int32
	lines   []line // line 0 is none
	free    int32  // of lines, chained by head
	members []member
	tracked int
	bytes   int64
}

// line is the members of one key.
type line struct {
	key        string
	head, tail int32
	waiting    int // its members
	out        int // times that its members are out
}

// member is a place in a line.
type member struct {
	line, next, prev int32
	out              int32
}

// New returns lines without members.
func New(limits Limits) *Lines {
	return &Lines{limits: limits, byKey: map[string]int32{}, lines: make([]line, 1)}
}

// Join puts a member that is in no line at the end of its key's. The key is copied.
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

// open returns a new line of a key.
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

// Leave takes a member out of its line. It returns who may go now; 0: nobody who could not
// before. Of one that is in no line nothing is done.
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

// next returns who may go of a line; 0: nobody.
func (l *Lines) next(q *line) int32 {
	if q.out > 0 {
		return 0
	}
	return q.head
}

// In reports whether a member is in a line.
func (l *Lines) In(m int32) bool { return int(m) < len(l.members) && l.members[m].line != 0 }

// First returns the first member of the line that a member is in; 0: it is in none.
func (l *Lines) First(m int32) int32 {
	if !l.In(m) {
		return 0
	}
	return l.lines[l.members[m].line].head
}

// May reports whether a member may go to a consumer: it is the first of its line, of which nobody
// is out, or in none.
func (l *Lines) May(m int32) bool {
	return !l.In(m) || l.next(&l.lines[l.members[m].line]) == m
}

// Out notes that a member is with a consumer, once more than before. Of one that is in no line
// nothing is noted.
func (l *Lines) Out(m int32) {
	if l.In(m) {
		l.members[m].out++
		l.lines[l.members[m].line].out++
	}
}

// Back undoes an Out. It returns who may go now, perhaps the member itself; 0: nobody.
func (l *Lines) Back(m int32) (next int32) {
	if !l.In(m) || l.members[m].out == 0 {
		return 0
	}
	l.members[m].out--
	q := &l.lines[l.members[m].line]
	q.out--
	return l.next(q)
}

// Len returns how many members there are.
func (l *Lines) Len() int { return l.tracked }

// Full reports whether nobody more should join for now.
func (l *Lines) Full() bool { return l.tracked >= l.limits.Tracked || l.bytes >= l.limits.Bytes }

// Longest returns the line in which most wait: its key, its first member, and how many there are;
// 0 if none. It looks at every line.
func (l *Lines) Longest() (key string, first int32, members int) {
	for i := range l.lines {
		if q := &l.lines[i]; q.waiting > members || q.waiting == members && q.waiting > 0 && q.key < key {
			key, first, members = q.key, q.head, q.waiting
		}
	}
	return key, first, members
}
