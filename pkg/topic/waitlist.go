package topic

import "slices"

// waitlist is the consumers that found nothing at their last Take, first come
// first. Its channel's mutex guards it.
type waitlist struct{ list []*Consumer }

func (w *waitlist) len() int32 { return int32(len(w.list)) }

// add puts a consumer at the end, unless it waits already.
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

// pop removes the first n, or all there are, and appends them to out.
func (w *waitlist) pop(n int, out []*Consumer) []*Consumer {
	n = min(n, len(w.list))
	for _, k := range w.list[:n] {
		k.waits.Store(false)
		out = append(out, k)
	}
	w.list = slices.Delete(w.list, 0, n)
	return out
}
