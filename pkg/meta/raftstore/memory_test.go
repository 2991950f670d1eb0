package raftstore

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

// A topic with a channel takes less than 1 KiB in the state.
func TestMemoryOfTopics(t *testing.T) {
	const topics = 1000
	o := options(t.TempDir())
	s := open(t, o)
	propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	before := heap()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < topics; i += 8 {
				name := fmt.Sprint("topic-", i)
				if _, err := s.Propose(t.Context(), topic(name)); err != nil {
					t.Error(err)
				}
				if _, err := s.Propose(t.Context(), meta.CreateChannel{Topic: name, Channel: "channel"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	live := heap() - before
	closeNow(t, s)
	s = open(t, o)
	restored := heap() - before
	t.Logf("%d bytes a topic; %d after a restart, the library included", live/topics, restored/topics)
	const events = 2 * 256 // of their creation, of which meta.MaxEvents are kept
	if live/topics > 1024+events || s.Topic("topic-999") == nil {
		t.Errorf("%d bytes a topic", live/topics)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
