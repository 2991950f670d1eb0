package once

import (
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/topic"
)

// Switch has a Keeper for a partition while its topic has a window for dedup ids. When the window is
// switched off, the Keeper stays until none of its publishes is in progress: if the window is switched
// on again, the next Keeper would not find their ids in the log yet. Its methods are safe for
// concurrent use. The zero value is off.
type Switch struct {
	offers atomic.Int64 // calls of Offer
	on     atomic.Bool
	keeper atomic.Pointer[Keeper] // nil: none; never nil while on

	mu sync.Mutex // held during Set and dropLocked
}

// Set switches it off if o has no window, and otherwise switches it on or changes the window's length.
// After an error of open it is unchanged.
func (s *Switch) Set(o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Window == 0 {
		s.on.Store(false)
		s.dropLocked()
		return nil
	}
	if k := s.keeper.Load(); k != nil {
		k.SetWindow(o.Window)
	} else {
		k, err := open(o)
		if err != nil {
			return err
		}
		s.keeper.Store(k)
	}
	s.on.Store(true)
	return nil
}

// dropLocked drops the keeper once the outcomes of all its claims are known. A concurrent Offer may
// have found it on.
func (s *Switch) dropLocked() {
	if k := s.keeper.Load(); k != nil && !s.on.Load() && s.offers.Load() == 0 && k.idle() {
		s.keeper.Store(nil)
	}
}

// Offer publishes messages of which some have ids: see Keeper.Offer. If it is off it returns false.
func (s *Switch) Offer(o topic.Offered) (on bool, err error) {
	s.offers.Add(1)
	defer s.offers.Add(-1)
	if !s.on.Load() {
		return false, nil
	}
	return true, s.keeper.Load().Offer(o)
}

// Keeper returns the keeper; nil: it is off.
func (s *Switch) Keeper() *Keeper {
	if !s.on.Load() {
		return nil
	}
	return s.keeper.Load()
}

// Committed is called when the log's committed end has moved. It does not
// block.
func (s *Switch) Committed() {
	if k := s.keeper.Load(); k != nil {
		k.Committed()
	}
}

// Expire forgets the ids whose window has passed. It is called periodically.
func (s *Switch) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
	if k := s.keeper.Load(); k != nil {
		k.Expire()
	}
}

// Close fails all waiting duplicates: the term has ended, so no outcome will become known here.
func (s *Switch) Close() {
	if k := s.keeper.Load(); k != nil {
		k.Close()
	}
}
