// Package limits measures what the disk of a machine can do by itself: appends that reach it.
package limits

import (
	"errors"
	"os"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// Limit is one finding.
type Limit struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	P50   float64 `json:"p50_us,omitempty"`
	P99   float64 `json:"p99_us,omitempty"`
	P999  float64 `json:"p999_us,omitempty"`
	Max   float64 `json:"max_us,omitempty"`
}

// Run measures everything once; dir is on the disk to measure.
func Run(dir string, d time.Duration) ([]Limit, error) {
	out, err := appends(dir, d)
	if err != nil {
		return out, err
	}
	limit, err := paced{files: 3, rate: 2000}.run(dir, d)
	return append(out, limit), err
}

func fromHist(name string, h *hdr.Histogram, elapsed time.Duration, n int, unit string) Limit {
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return Limit{name, float64(n) / elapsed.Seconds(), unit, us(50), us(99), us(99.9), float64(h.Max()) / 1e3}
}

// appending is one way of appending with fdatasync.
type appending struct {
	name    string
	n       int  // bytes at a time
	writers int  // each with its own file
	pre     bool // the file's blocks are written before
}

// preWritten is how large a file is whose blocks are written before.
const preWritten = 512 << 20

// appends appends and calls fdatasync, alone and by three writers at once, to
// files that grow and to files whose blocks are already written.
func appends(dir string, d time.Duration) ([]Limit, error) {
	var out []Limit
	for _, c := range []appending{
		{"append 4 KiB + fdatasync, growing file", 4 << 10, 1, false},
		{"append 128 KiB + fdatasync, growing file", 128 << 10, 1, false},
		{"append 1 MiB + fdatasync, growing file", 1 << 20, 1, false},
		{"write 4 KiB + fdatasync, file written before", 4 << 10, 1, true},
		{"write 128 KiB + fdatasync, file written before", 128 << 10, 1, true},
		{"append 4 KiB + fdatasync, growing files, 3 writers", 4 << 10, 3, false},
		{"append 128 KiB + fdatasync, growing files, 3 writers", 128 << 10, 3, false},
	} {
		limit, err := c.run(dir, d)
		if err != nil {
			return nil, err
		}
		out = append(out, limit)
	}
	return out, nil
}

// run lets all writers append for d.
func (c appending) run(dir string, d time.Duration) (Limit, error) {
	hs := make([]*hdr.Histogram, c.writers)
	files := make([]*os.File, c.writers)
	for i := range files {
		f, err := c.file(dir)
		if err != nil {
			return Limit{}, err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		files[i], hs[i] = f, hdr.New(100, 10e9, 3)
	}
	var wg sync.WaitGroup
	errs := make(chan error, c.writers)
	t := time.Now()
	for i, f := range files {
		wg.Go(func() { errs <- c.write(f, hs[i], t.Add(d)) })
	}
	wg.Wait()
	e := time.Since(t)
	close(errs)
	for err := range errs {
		if err != nil {
			return Limit{}, err
		}
	}
	h := hdr.New(100, 10e9, 3)
	for _, x := range hs {
		h.Merge(x)
	}
	return fromHist(c.name, h, e, int(h.TotalCount()), "fdatasyncs/s"), nil
}

// file makes a writer's file.
func (c appending) file(dir string) (*os.File, error) {
	if c.pre {
		return written(dir, preWritten)
	}
	return os.CreateTemp(dir, "limits")
}

// written creates a file whose first blocks are on disk: at least size bytes, in whole MiB.
func written(dir string, size int) (*os.File, error) {
	f, err := os.CreateTemp(dir, "limits")
	if err != nil {
		return nil, err
	}
	z := make([]byte, 1<<20)
	for range (size + len(z) - 1) / len(z) {
		if _, err := f.Write(z); err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// write appends until the deadline and records how long each fdatasync took.
func (c appending) write(f *os.File, h *hdr.Histogram, deadline time.Time) error {
	p := make([]byte, c.n)
	for off := int64(0); time.Now().Before(deadline); off += int64(c.n) {
		if c.pre && off+int64(c.n) > preWritten {
			off = 0
		}
		if _, err := f.WriteAt(p, off); err != nil {
			return err
		}
		s := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		if err := h.RecordValue(int64(time.Since(s))); err != nil {
			return err
		}
	}
	return nil
}
