package raftstore

import "os"

// writeZeros takes disk space where it cannot be asked for.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 64<<10)
	for size > 0 {
		n, err := f.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return f.Sync()
}
