// Package hugepage moves Go's heap into huge pages of the system. A processor that accesses memory
// which it has not accessed for long first looks up its page, which takes longer than the access,
// and in a virtual machine several times as long. A huge page has 512 times the memory for one
// lookup.
//
// Only parts that are completely resident are moved, so that the process takes no more memory, and
// what the collector returns to the system stays returned: no mapping is marked for the system to
// fill. The memory limit of the runtime does not count what it has returned.
package hugepage

// parts are consecutive parts of a span, by number.
type parts struct{ from, to int }

// full returns the rows of parts of n pages each of which all are resident. The first bit of
// each byte says that a page is.
func full(resident []byte, n int) (all []parts) {
	for i := range len(resident) / n {
		used := 0
		for _, r := range resident[i*n : (i+1)*n] {
			used += int(r & 1)
		}
		switch k := len(all); {
		case used < n:
		case k > 0 && all[k-1].to == i:
			all[k-1].to++
		default:
			all = append(all, parts{i, i + 1})
		}
	}
	return all
}
