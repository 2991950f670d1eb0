// Package limits measures what the machine itself can do: copying memory,
// checksums, loopback TCP, and appends that reach the disk.
package limits

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
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
	var out []Limit
	for _, f := range []func(time.Duration) ([]Limit, error){
		memory, checksum, roundTrip, stream,
		func(d time.Duration) ([]Limit, error) { return appends(dir, d) },
		func(d time.Duration) ([]Limit, error) {
			limit, err := paced{files: 3, rate: 2000}.run(dir, d)
			return []Limit{limit}, err
		},
	} {
		l, err := f(d)
		if err != nil {
			return out, err
		}
		out = append(out, l...)
	}
	return out, nil
}

// per runs f until d has passed and returns bytes a second.
func per(d time.Duration, n int, f func()) float64 {
	f()
	t := time.Now()
	for k := 0; ; {
		for range max(1, (1<<20)/n) {
			f()
			k++
		}
		if e := time.Since(t); e >= d {
			return float64(k) * float64(n) / e.Seconds()
		}
	}
}

func memory(d time.Duration) ([]Limit, error) {
	var out []Limit
	for _, n := range []int{16 << 10, 1 << 20, 256 << 20} {
		a, b := make([]byte, n), make([]byte, n)
		for i := range a {
			a[i] = byte(i)
		}
		v := per(d, n, func() { copy(b, a) })
		out = append(out, Limit{Name: fmt.Sprintf("memcpy %d KiB, one core", n>>10), Value: v / 1e9, Unit: "GB/s"})
	}
	return out, nil
}

func checksum(d time.Duration) ([]Limit, error) {
	t := crc32.MakeTable(crc32.Castagnoli)
	var out []Limit
	var sum uint32 // each block continues from the one before: nothing can be left out
	for _, n := range []int{128, 1 << 10, 16 << 10, 1 << 20} {
		a := make([]byte, n)
		v := per(d, n, func() { sum = crc32.Update(sum, t, a) })
		out = append(out, Limit{Name: fmt.Sprintf("CRC-32C %d B, one core", n), Value: v / 1e9, Unit: "GB/s"})
	}
	return out, nil
}

func pair() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	b, err = l.Accept()
	return a, b, err
}

func fromHist(name string, h *hdr.Histogram, elapsed time.Duration, n int, unit string) Limit {
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return Limit{name, float64(n) / elapsed.Seconds(), unit, us(50), us(99), us(99.9), float64(h.Max()) / 1e3}
}

// roundTrip plays ping-pong over 1 and over 16 connections.
func roundTrip(d time.Duration) ([]Limit, error) {
	var out []Limit
	for _, conns := range []int{1, 16} {
		var wg sync.WaitGroup
		hs := make([]*hdr.Histogram, conns)
		t := time.Now()
		for i := range conns {
			a, b, err := pair()
			if err != nil {
				return nil, err
			}
			defer a.Close()
			go func() {
				defer b.Close()
				p := make([]byte, 128)
				for {
					if _, err := io.ReadFull(b, p); err != nil {
						return
					}
					if _, err := b.Write(p); err != nil {
						return
					}
				}
			}()
			hs[i] = hdr.New(100, 10e9, 3)
			wg.Go(func() {
				p := make([]byte, 128)
				for end := t.Add(d); ; {
					s := time.Now()
					if s.After(end) {
						return
					}
					if _, err := a.Write(p); err != nil {
						return
					}
					if _, err := io.ReadFull(a, p); err != nil {
						return
					}
					hs[i].RecordValue(int64(time.Since(s)))
				}
			})
		}
		wg.Wait()
		e := time.Since(t)
		h := hdr.New(100, 10e9, 3)
		for _, x := range hs {
			h.Merge(x)
		}
		out = append(out, fromHist(fmt.Sprintf("loopback TCP ping-pong 128 B, %d connections, one Go process", conns), h, e, int(h.TotalCount()), "round trips/s"))
	}
	return out, nil
}

// stream pushes bytes one way over one connection.
func stream(d time.Duration) ([]Limit, error) {
	var out []Limit
	for _, n := range []int{128, 1 << 10, 16 << 10, 256 << 10} {
		a, b, err := pair()
		if err != nil {
			return nil, err
		}
		got := make(chan int64)
		go func() {
			p := make([]byte, 256<<10)
			var k int64
			for {
				m, err := b.Read(p)
				k += int64(m)
				if err != nil {
					got <- k
					return
				}
			}
		}()
		p := make([]byte, n)
		t := time.Now()
		writes := 0
		for time.Since(t) < d {
			for range 16 {
				if _, err := a.Write(p); err != nil {
					return nil, err
				}
				writes++
			}
		}
		a.Close()
		k := <-got
		e := time.Since(t)
		b.Close()
		out = append(out, Limit{Name: fmt.Sprintf("loopback TCP one way, writes of %d B", n), Value: float64(k) / e.Seconds() / 1e9, Unit: "GB/s"},
			Limit{Name: fmt.Sprintf("loopback TCP one way, writes of %d B, calls", n), Value: float64(writes) / e.Seconds(), Unit: "writes/s"})
	}
	return out, nil
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
