package once

import (
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/topic"
)

// Switch has a Keeper for a partition while its topic has a window for dedup ids. A window that is switched off and on
// again may have publishes under way that are not in the log yet, where the next Keeper would look for their ids: the
// Keeper stays until there are none. Its methods may be called at the same time. The zero value is off.
type Switch struct {
	offers atomic.Int64 // calls of Offer
	on     atomic.Bool
	keeper atomic.Pointer[Keeper] // nil: none is kept; not while it is on

	mu sync.Mutex // held while it is switched, and while the keeper is dropped
}

// Set switches it off if o has no window, and otherwise on, or changes how long ids are known. After an error of Open it
// is as it was.
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
		k, err := Open(o)
		if err != nil {
			return err
		}
		s.keeper.Store(k)
	}
	s.on.Store(true)
	return nil
}

// dropLocked lets the keeper go once all that it has claimed is in the log, or never will be. Who is in Offer may have
// found it on.
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

// Expire forgets the ids whose window is over. It is called now and then.
func (s *Switch) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
	if k := s.keeper.Load(); k != nil {
		k.Expire()
	}
}

// Close tells everybody who waits that nothing more becomes known here. The term has ended.
func (s *Switch) Close() {
	if k := s.keeper.Load(); k != nil {
		k.Close()
	}
}
