package position

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/seq"
)

// The encoding of a Position on disk and between nodes. Numbers are unsigned varints in their
// shortest form. The bytes have no checksum: code that stores or sends them adds one.
//
//	+---------+-------+---+- n x ----------+---+- n x -----------------------------+---+- n x -----------+
//	| version | floor | n | gap | length   | n | gap | m | base | size | m entries | n | gap | attempts  |
//	|  = 3    |       |   |  finished      |   |  pages of deferred (base: 8 bytes)|   |  attempted      |
//	+---------+-------+---+----------------+---+-----------------------------------+---+-----------------+
//
// The entries of a page are those of the type page.
//
// A gap counts from the end of what is before it in its own list, or from the
// floor. Between two finished ranges, and before the first, it is at least 1.

const positionVersion = 3

// Minimum encoded size of an entry of each list: a count is checked against the remaining bytes
// before anything is allocated.
const (
	minFinishedBytes  = 2
	minDeferredBytes  = 14
	minAttemptedBytes = 2
)

// errInvalid is wrapped by the errors of Position.UnmarshalBinary.
var errInvalid = errors.New("invalid")

// AppendBinary appends the encoded position to dst. It never fails.
func (p Position) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, positionVersion)
	dst = binary.AppendUvarint(dst, uint64(p.Floor))
	dst = binary.AppendUvarint(dst, uint64(len(p.Finished)))
	at := p.Floor
	for _, r := range p.Finished {
		dst = binary.AppendUvarint(dst, uint64(r.From-at))
		dst = binary.AppendUvarint(dst, uint64(r.End-r.From))
		at = r.End
	}
	dst = binary.AppendUvarint(dst, uint64(p.Deferred.pageCount())) //nolint:gosec // a count
	at = p.Floor
	for g := range p.Deferred.eachPage() {
		dst = binary.AppendUvarint(dst, uint64(g.first-at))
		dst = binary.AppendUvarint(dst, uint64(g.n))                //nolint:gosec // a count
		dst = binary.LittleEndian.AppendUint64(dst, uint64(g.base)) //nolint:gosec // the bits of a signed number
		dst = binary.AppendUvarint(dst, uint64(len(g.entries)))
		dst = append(dst, g.entries...)
		at = g.last + 1
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Attempted)))
	at = p.Floor
	for _, a := range p.Attempted {
		dst = binary.AppendUvarint(dst, uint64(a.Offset-at))
		dst = binary.AppendUvarint(dst, uint64(a.Attempts))
		at = a.Offset + 1
	}
	return dst, nil
}

// UnmarshalBinary sets p to the position that data encodes exactly. It allocates at most a small
// multiple of data and retains no reference to it. On an error, which wraps errInvalid, p is
// unchanged.
func (p *Position) UnmarshalBinary(data []byte) error {
	d := decoder{fields.Reader{Rest: data}}
	if version := d.Uint8(); version != positionVersion {
		d.Fail(fmt.Errorf("unknown version %d", version))
	}
	q := Position{Floor: seq.Offset(d.Number(uint64(seq.MaxOffset) + 1))}
	q.Finished = d.ranges(q.Floor, false)
	q.Deferred = d.deferred(q.Floor)
	q.Attempted = d.attempted(q.Floor)
	if d.Err() == nil && q.overlaps() {
		d.fail("duplicate offset")
	}
	if err := d.End(errInvalid, "channel position"); err != nil {
		return err
	}
	*p = q
	return nil
}

// AppendBinary appends the encoded change to dst: the length of its position and the position, then
// the unmarked ranges in the encoding of finished ones, of which the first may begin at the floor.
// It never fails.
func (c Change) AppendBinary(dst []byte) ([]byte, error) {
	position, _ := c.Position.AppendBinary(nil)
	dst = binary.AppendUvarint(dst, uint64(len(position)))
	dst = append(dst, position...)
	dst = binary.AppendUvarint(dst, uint64(len(c.Unmarked)))
	at := c.Floor
	for _, r := range c.Unmarked {
		dst = binary.AppendUvarint(dst, uint64(r.From-at))
		dst = binary.AppendUvarint(dst, uint64(r.End-r.From))
		at = r.End
	}
	return dst, nil
}

// UnmarshalBinary sets c to the change that data encodes exactly, like Position.UnmarshalBinary.
func (c *Change) UnmarshalBinary(data []byte) error {
	d := decoder{fields.Reader{Rest: data}}
	var read Change
	if err := read.Position.UnmarshalBinary(d.Bytes()); err != nil {
		return err
	}
	read.Unmarked = d.ranges(read.Floor, true)
	if d.Err() == nil && read.overlaps() {
		d.fail("duplicate offset")
	}
	if err := d.End(errInvalid, "change of a channel position"); err != nil {
		return err
	}
	*c = read
	return nil
}

// overlaps reports whether an unmarked offset is also in another list.
func (c *Change) overlaps() bool {
	unmarked := Position{Finished: c.Unmarked, Deferred: c.Deferred, Attempted: c.Attempted}
	if unmarked.overlaps() {
		return true
	}
	left := subtract(c.Unmarked, c.Finished)
	return !slices.Equal(left, c.Unmarked)
}

// overlaps reports whether an offset is in two of the lists.
func (p *Position) overlaps() bool {
	finished, attempted := p.Finished, p.Attempted
	within := func(o seq.Offset, ranges []Range) ([]Range, bool) {
		for len(ranges) > 0 && ranges[0].End <= o {
			ranges = ranges[1:]
		}
		return ranges, len(ranges) > 0 && ranges[0].From <= o
	}
	var bad bool
	for d := range p.Deferred.All() {
		if finished, bad = within(d.Offset, finished); bad {
			return true
		}
		for len(attempted) > 0 && attempted[0].Offset < d.Offset {
			attempted = attempted[1:]
		}
		if len(attempted) > 0 && attempted[0].Offset == d.Offset {
			return true
		}
	}
	finished = p.Finished
	for _, a := range p.Attempted {
		if finished, bad = within(a.Offset, finished); bad {
			return true
		}
	}
	return false
}

// decoder reads a Position or a Change.
type decoder struct{ fields.Reader }

func (d *decoder) fail(what string) { d.Fail(errors.New(what)) }

// offset reads a gap from at and returns the offset after it.
func (d *decoder) offset(at seq.Offset) seq.Offset {
	if at > seq.MaxOffset {
		d.fail("offset out of range")
		return 0
	}
	return at + seq.Offset(d.Number(uint64(seq.MaxOffset-at)))
}

// attempts reads a number of attempts, at least least.
func (d *decoder) attempts(least uint64) seq.Attempts {
	n := d.Number(math.MaxUint16)
	if n < least {
		d.fail("attempts missing")
	}
	a := seq.Attempts(n) //nolint:gosec // bounded
	if !a.Valid() {
		d.fail("attempts out of range")
	}
	return a
}

// ranges reads ranges that touch neither each other nor at, except that the first may touch it if
// mayTouch.
func (d *decoder) ranges(at seq.Offset, mayTouch bool) []Range {
	n := d.Count(minFinishedBytes)
	if n == 0 {
		return nil
	}
	out := make([]Range, 0, n)
	for range n {
		from := d.offset(at)
		if from == at && !mayTouch {
			d.fail("range overlaps or touches the previous one")
		}
		mayTouch = false
		length := d.Number(uint64(seq.MaxOffset) + 1 - uint64(from))
		if length == 0 {
			d.fail("empty range")
		}
		if d.Err() != nil {
			return nil
		}
		at = from + seq.Offset(length)
		out = append(out, Range{from, at})
	}
	return out
}

func (d *decoder) deferred(at seq.Offset) (s DeferralSet) {
	n := d.Count(minDeferredBytes)
	if n == 0 {
		return s
	}
	pages, all := make([]page, 0, n), 0
	for range n {
		g := page{first: d.offset(at), n: int(d.Number(pageEntries))} //nolint:gosec // bounded
		g.base = int64(d.Uint64())                                    //nolint:gosec // the bits of a signed number
		g.entries = bytes.Clone(d.Bytes())
		if d.page(&g); d.Err() != nil {
			return DeferralSet{}
		}
		pages, all = append(pages, g), all+g.n
		at = g.last + 1
	}
	return setOf(pages, all)
}

// page checks the entries of a page, and sets where it ends.
func (d *decoder) page(g *page) {
	if g.n == 0 {
		d.fail("empty page")
	}
	e := decoder{fields.Reader{Rest: g.entries}}
	taken, next := g.base, g.first
	for i := range g.n {
		head := e.Uvarint()
		if gap := head >> 1; next > seq.MaxOffset || gap > uint64(seq.MaxOffset-next) || i == 0 && gap > 0 {
			e.fail("offset out of range")
		}
		g.last = next + seq.Offset(head>>1)
		due := g.base + e.Varint()
		taken += e.Varint()
		if due-taken < 0 || i == 0 && due != g.base {
			e.fail("due before the message was taken")
		}
		if head&1 != 0 {
			e.attempts(1)
		}
		if next = g.last + 1; e.Err() != nil {
			break
		}
	}
	if err := e.End(errInvalid, "page of deferred messages"); err != nil {
		d.Fail(err)
	}
}

func (d *decoder) attempted(at seq.Offset) []Attempt {
	n := d.Count(minAttemptedBytes)
	if n == 0 {
		return nil
	}
	out := make([]Attempt, 0, n)
	for range n {
		o := d.offset(at)
		out = append(out, Attempt{o, d.attempts(1)})
		if d.Err() != nil {
			return nil
		}
		at = o + 1
	}
	return out
}
