package commitlog

import (
	"sort"

	"github.com/brokerd/brokerd/pkg/seq"
)

// EpochStart is the start of an epoch in the log.
type EpochStart struct {
	Epoch seq.Epoch  `json:"epoch"`
	Start seq.Offset `json:"start"` // of the first batch of that epoch
}

// addEpoch adds the epoch of a batch to the history, if it is new.
func addEpoch(history []EpochStart, b Batch) []EpochStart {
	if n := len(history); n > 0 && history[n-1].Epoch >= b.Epoch() {
		return history
	}
	return append(history, EpochStart{b.Epoch(), b.First()})
}

// cutEpochs returns the history reduced to [start, end).
func cutEpochs(history []EpochStart, start, end seq.Offset) []EpochStart {
	var cut []EpochStart
	for i, e := range history {
		next := end
		if i+1 < len(history) {
			next = min(end, history[i+1].Start)
		}
		if next > start && e.Start < end {
			cut = append(cut, EpochStart{e.Epoch, max(e.Start, start)})
		}
	}
	return cut
}

// lastEpochBefore returns the last epoch of a history that begins before off, or 0.
func lastEpochBefore(history []EpochStart, off seq.Offset) seq.Epoch {
	i := sort.Search(len(history), func(i int) bool { return history[i].Start >= off })
	if i == 0 {
		return 0
	}
	return history[i-1].Epoch
}

// EpochEnding returns the epoch of the batch that ends at an offset, or 0 if it is not known for
// certain: the batch has been damaged since before Open, and was not the last committed one then. A
// copy of the log with a batch in that epoch that ends there is the same up to there, because one
// leader wrote it.
func (l *Log) EpochEnding(off seq.Offset) seq.Epoch {
	if off > l.unsure {
		return lastEpochBefore(l.Epochs(), off)
	}
	if n := l.opened.Load(); n != nil && n.Committed == off {
		return n.Epoch
	}
	return 0
}
