package redo

import "slices"

// span is a range of bytes of a file.
type span struct{ from, to int64 }

// maxSpans limits how many ranges of a file are remembered. If there are more, the two nearest
// become one, and the bytes between them are written again, too.
const maxSpans = 16

// spans are ordered ranges of a file that do not touch.
type spans []span

// add returns s with [from, to) added.
func (s spans) add(from, to int64) spans {
	if from >= to {
		return s
	}
	i, _ := slices.BinarySearchFunc(s, from, func(x span, from int64) int {
		if x.to < from {
			return -1
		}
		return 1
	})
	k := i
	for k < len(s) && s[k].from <= to {
		from, to = min(from, s[k].from), max(to, s[k].to)
		k++
	}
	s = slices.Replace(s, i, k, span{from, to})
	if len(s) <= maxSpans {
		return s
	}
	nearest := 0
	for i := range len(s) - 1 {
		if s[i+1].from-s[i].to < s[nearest+1].from-s[nearest].to {
			nearest = i
		}
	}
	s[nearest].to = s[nearest+1].to
	return slices.Delete(s, nearest+1, nearest+2)
}

// bytes returns how many bytes s covers.
func (s spans) bytes() (n int64) {
	for _, x := range s {
		n += x.to - x.from
	}
	return n
}
