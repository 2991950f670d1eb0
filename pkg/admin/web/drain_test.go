package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/limit"
)

// endless is a body that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// The rest of a refused body is read at the rate that all connections share, for a bounded time.
func TestDroppedBodyIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			drops *limit.Drops
			want  int
		}{
			{limit.NewDrops(1 << 20), int(drainTime.Seconds()) << 20},
			{nil, minDrain},
		} {
			body := &endless{}
			r := httptest.NewRequest(http.MethodPost, "/pub", body)
			h := &Handler{DrainBytes: minDrain, Drops: c.drops}
			w := &statusWriter{ResponseWriter: httptest.NewRecorder(), request: r, handler: h}
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			if body.read != c.want {
				t.Errorf("%d bytes were dropped, not %d", body.read, c.want)
			}
		}
	})
}
