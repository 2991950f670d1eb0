package admin

import (
	"bytes"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/web"
)

// wholeTime is how long a client may take to read a whole answer.
const wholeTime = 30 * time.Second

// whole serves the answers of a handler once they are complete: a client that reads slowly, or not at all, does not
// keep the handler from others. The answers count towards the memory budget until they are written.
func whole(answers *web.Answers, h http.Handler) http.HandlerFunc {
	lengths := web.Lengths{Reads: true}
	return func(w http.ResponseWriter, r *http.Request) {
		kept := &keptAnswer{header: w.Header(), status: http.StatusOK}
		_, written, err := answers.Make(r.Context(), &lengths, func() (any, error) {
			h.ServeHTTP(kept, r)
			return kept.body.Bytes(), nil
		})
		defer written()
		if err != nil {
			nsqform.Answer(w, nil, err)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wholeTime)) // without deadlines there is no connection
		w.WriteHeader(kept.status)
		_, _ = w.Write(kept.body.Bytes()) // ignore: the client disconnected, or does not read
	}
}

// keptAnswer is an answer in memory.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header         { return k.header }
func (k *keptAnswer) WriteHeader(status int)      { k.status = status }
func (k *keptAnswer) Write(p []byte) (int, error) { return k.body.Write(p) }
