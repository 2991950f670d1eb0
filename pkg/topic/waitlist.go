package topic

import "slices"

// waitlist holds the consumers that found nothing at their last Take, in the order in which they
// began to wait. Its channel's mutex guards it.
type waitlist struct{ list []*Consumer }

func (w *waitlist) len() int32 { return int32(len(w.list)) }

// add appends a consumer, unless it already waits.
func (w *waitlist) add(k *Consumer) {
	if !k.waits.Load() {
		k.waits.Store(true)
		w.list = append(w.list, k)
	}
}

func (w *waitlist) remove(k *Consumer) {
	if !k.waits.Load() {
		return
	}
	k.waits.Store(false)
	if i := slices.Index(w.list, k); i >= 0 {
		w.list = slices.Delete(w.list, i, i+1)
	}
}

// pop removes the first n consumers, or all if there are fewer, and appends them to out.
func (w *waitlist) pop(n int, out []*Consumer) []*Consumer {
	n = min(n, len(w.list))
	for _, k := range w.list[:n] {
		k.waits.Store(false)
		out = append(out, k)
	}
	w.list = slices.Delete(w.list, 0, n)
	return out
}
