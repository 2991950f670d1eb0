package raftstore

import "os"

// writeZeros allocates disk space after from by writing, where the system has
// no call for it.
func writeZeros(f *os.File, from, size int64) error {
	zeros := make([]byte, 64<<10)
	for size > 0 {
		n, err := f.WriteAt(zeros[:min(size, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from += int64(n)
		size -= int64(n)
	}
	return f.Sync()
}
