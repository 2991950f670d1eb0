package replication

import (
	"sync"
	"time"
)

// idFiles are the files of dedup ids of a replica.
type idFiles struct {
	mu    sync.Mutex
	files []string
}

func (s *idFiles) Files() (numbers []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.files {
		numbers = append(numbers, uint64(i)) //nolint:gosec // not negative
	}
	return numbers
}

func (s *idFiles) Read(number uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[number] == "" {
		return nil, nil
	}
	return []byte(s.files[number]), nil
}

func (s *idFiles) Replace(first bool, content []byte, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.files = nil
	} else {
		s.files = append(s.files, string(content))
	}
	return nil
}
