package limits

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// paced is a load of small records at an even rate, written and synced to several files at once:
// the disk cost of a replicated message if the replicas share a disk. A record that arrives during
// a sync waits for the next.
type paced struct {
	files int
	rate  int // records a second
}

// recordSize is about that of a small message in a log.
const recordSize = 256

// run measures the time from the arrival of a record until every file has it.
func (c paced) run(dir string, d time.Duration) (Limit, error) {
	name := fmt.Sprintf("%d records/s, write %d B + fdatasync, until %d files have it, written before", c.rate, recordSize, c.files)
	records := &pacedRecords{came: make([]time.Time, max(1, int(d.Seconds()*float64(c.rate))))}
	records.lacking = make([]atomic.Int32, len(records.came))
	records.took = make([]time.Duration, len(records.came))
	for i := range records.lacking {
		records.lacking[i].Store(int32(c.files))
	}
	records.more.L = &records.mu
	files := make([]*os.File, c.files)
	for i := range files {
		f, err := written(dir, len(records.came)*recordSize)
		if err != nil {
			return Limit{}, err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		files[i] = f
	}
	errs := make(chan error, c.files)
	t := time.Now()
	for _, f := range files {
		go func() { errs <- records.write(f) }()
	}
	records.come(t, time.Second/time.Duration(c.rate))
	for range files {
		if err := <-errs; err != nil {
			return Limit{}, err
		}
	}
	e := time.Since(t)
	h := hdr.New(100, 60e9, 3)
	for _, took := range records.took {
		if err := h.RecordValue(int64(took)); err != nil {
			return Limit{}, err
		}
	}
	return fromHist(name, h, e, len(records.took), "records/s"), nil
}

// pacedRecords is the records of one run.
type pacedRecords struct {
	mu   sync.Mutex
	more sync.Cond
	n    int // the number of arrived records

	came    []time.Time     // set before n counts them
	lacking []atomic.Int32  // files that do not have it yet
	took    []time.Duration // set by the writer of the last of these
}

// come produces all records, one in each interval.
func (r *pacedRecords) come(start time.Time, interval time.Duration) {
	for i := range r.came {
		time.Sleep(time.Until(start.Add(time.Duration(i) * interval)))
		r.mu.Lock()
		r.came[i] = time.Now()
		r.n = i + 1
		r.mu.Unlock()
		r.more.Broadcast()
	}
}

// write writes all records to f: those that arrived meanwhile together.
func (r *pacedRecords) write(f *os.File) error {
	p := make([]byte, recordSize)
	for done := 0; done < len(r.came); {
		r.mu.Lock()
		for r.n == done {
			r.more.Wait()
		}
		n := r.n
		r.mu.Unlock()
		for i := done; i < n; i++ {
			if _, err := f.WriteAt(p, int64(i)*recordSize); err != nil {
				return err
			}
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		now := time.Now()
		for ; done < n; done++ {
			if r.lacking[done].Add(-1) == 0 {
				r.took[done] = now.Sub(r.came[done])
			}
		}
	}
	return nil
}
