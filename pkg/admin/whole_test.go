package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/metrics"
)

// stuck is a client that does not read until it is released. It remembers until when it may take.
type stuck struct {
	*httptest.ResponseRecorder
	writing, release chan struct{}
	until            time.Time
}

func (s *stuck) Write(p []byte) (int, error) {
	s.writing <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// SetWriteDeadline is what http.ResponseController calls.
func (s *stuck) SetWriteDeadline(until time.Time) error {
	s.until = until
	return nil
}

// TestClientsThatDoNotReadKeepDetailsFromNobody: two of them blocked /metrics/detailed for half a minute for everybody.
func TestClientsThatDoNotReadKeepDetailsFromNobody(t *testing.T) {
	m := metrics.New(metrics.Options{Detail: func(metrics.Question) metrics.Detail { return metrics.Detail{} }})
	h := serverOf(t, newFake(), func(o *Options) { o.DetailedMetrics = m.Detailed() }).Handler()
	const target = "/metrics/detailed?family=topic"
	writing, release, ended := make(chan struct{}), make(chan struct{}), make(chan *stuck)
	const clients = 5
	for range clients {
		w := &stuck{httptest.NewRecorder(), writing, release, time.Time{}}
		go func() {
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
			ended <- w
		}()
		select {
		case <-writing:
		case w := <-ended:
			close(release)
			t.Fatalf("beside clients that do not read: answered %d %s", w.Code, w.Body)
		}
	}
	if w := ask(h, http.MethodGet, target, ""); w.Code != http.StatusOK {
		t.Errorf("beside clients that do not read: answered %d %s", w.Code, w.Body)
	}
	if w := ask(h, http.MethodGet, "/metrics/detailed?family=none", ""); w.Code != http.StatusBadRequest || w.Body.Len() == 0 {
		t.Errorf("an unknown family: answered %d %s", w.Code, w.Body)
	}
	close(release)
	for range clients {
		if w := <-ended; w.Code != http.StatusOK || time.Until(w.until) <= 0 || time.Until(w.until) > wholeTime {
			t.Errorf("answered %d, and may be read until %v", w.Code, w.until)
		}
	}
}
