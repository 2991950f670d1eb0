package lookupd

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"net/url"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// answer is a handler's result: a status and a body, or an error code.
type answer struct {
	status int
	body   any    // nil: empty; a string: plain text; else JSON
	code   string // if set: an error, sent as {"message": code}
}

func ok(body any) answer                    { return answer{status: http.StatusOK, body: body} }
func failed(status int, code string) answer { return answer{status: status, code: code} }
func badRequest(code string) answer         { return failed(http.StatusBadRequest, code) }
func (a answer) refused() bool              { return a.code != "" }
func present(q url.Values, key string) bool { return len(q[key]) > 0 }

type directoryAPI struct {
	dir     *Directory
	version string
	now     func() time.Time
}

// Handler returns the lookup daemon's HTTP API over d. /info reports version.
func Handler(d *Directory, version string) http.Handler {
	api := &directoryAPI{dir: d, version: version, now: time.Now}
	mux := http.NewServeMux()
	for path, route := range map[string]struct {
		method string
		handle func(url.Values) answer
	}{
		"/ping":            {http.MethodGet, func(url.Values) answer { return ok("OK") }},
		"/info":            {http.MethodGet, api.info},
		"/debug":           {http.MethodGet, api.debug},
		"/lookup":          {http.MethodGet, api.lookup},
		"/topics":          {http.MethodGet, api.topics},
		"/channels":        {http.MethodGet, api.channels},
		"/nodes":           {http.MethodGet, api.nodes},
		"/topic/create":    {http.MethodPost, api.createTopic},
		"/topic/delete":    {http.MethodPost, api.deleteTopic},
		"/topic/tombstone": {http.MethodPost, api.tombstone},
		"/channel/create":  {http.MethodPost, api.createChannel},
		"/channel/delete":  {http.MethodPost, api.deleteChannel},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != route.method {
				write(w, failed(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"))
				return
			}
			query, err := url.ParseQuery(r.URL.RawQuery)
			if err != nil {
				write(w, badRequest("INVALID_REQUEST"))
				return
			}
			write(w, route.handle(query))
		})
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, failed(http.StatusNotFound, "NOT_FOUND"))
	})
	return mux
}

// write sends an answer. Clients take a body without the content type header
// for an older, wrapped form and find nothing in it.
func write(w http.ResponseWriter, a answer) {
	body := a.body
	if a.refused() {
		body = map[string]string{"message": a.code}
	}
	if text, plain := body.(string); plain {
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("X-NSQ-Content-Type", "nsq; version=1.0")
	if body == nil {
		w.WriteHeader(a.status)
		return
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		a.status, encoded = http.StatusInternalServerError, []byte(`{"message":"INTERNAL_ERROR"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	_, _ = w.Write(encoded)
}

func (api *directoryAPI) info(url.Values) answer {
	return ok(map[string]string{"version": api.version})
}

func (api *directoryAPI) debug(url.Values) answer { return ok(api.dir.Dump(api.now())) }

func (api *directoryAPI) topics(url.Values) answer {
	return ok(map[string][]string{"topics": api.dir.Topics()})
}

func (api *directoryAPI) nodes(url.Values) answer {
	return ok(map[string][]NodeTopics{"producers": api.dir.Nodes(api.now())})
}

func (api *directoryAPI) channels(q url.Values) answer {
	if !present(q, "topic") {
		return badRequest("MISSING_ARG_TOPIC")
	}
	return ok(map[string][]string{"channels": api.dir.Channels(q.Get("topic"))})
}

func (api *directoryAPI) lookup(q url.Values) answer {
	if !present(q, "topic") {
		return badRequest("MISSING_ARG_TOPIC")
	}
	channels, nodes, known := api.dir.Lookup(q.Get("topic"), api.now())
	if !known {
		return failed(http.StatusNotFound, "TOPIC_NOT_FOUND")
	}
	return ok(struct {
		Channels  []string `json:"channels"`
		Producers []Node   `json:"producers"`
	}{channels, nodes})
}

func (api *directoryAPI) createTopic(q url.Values) answer {
	if !present(q, "topic") {
		return badRequest("MISSING_ARG_TOPIC")
	}
	if !meta.NSQName(q.Get("topic")) {
		return badRequest("INVALID_ARG_TOPIC")
	}
	return api.register(q.Get("topic"), "")
}

func (api *directoryAPI) deleteTopic(q url.Values) answer {
	if !present(q, "topic") {
		return badRequest("MISSING_ARG_TOPIC")
	}
	api.dir.DeleteTopic(q.Get("topic"))
	return ok(nil)
}

func (api *directoryAPI) tombstone(q url.Values) answer {
	if !present(q, "topic") {
		return badRequest("MISSING_ARG_TOPIC")
	}
	if !present(q, "node") {
		return badRequest("MISSING_ARG_NODE")
	}
	api.dir.Tombstone(q.Get("topic"), q.Get("node"), api.now())
	return ok(nil)
}

func (api *directoryAPI) createChannel(q url.Values) answer {
	if wrong := checkChannel(q); wrong.refused() {
		return wrong
	}
	return api.register(q.Get("topic"), q.Get("channel"))
}

func (api *directoryAPI) deleteChannel(q url.Values) answer {
	if wrong := checkChannel(q); wrong.refused() {
		return wrong
	}
	if !api.dir.DeleteChannel(q.Get("topic"), q.Get("channel")) {
		return failed(http.StatusNotFound, "CHANNEL_NOT_FOUND")
	}
	return ok(nil)
}

func (api *directoryAPI) register(topic, channel string) answer {
	if err := api.dir.Register(0, topic, channel); err != nil {
		return failed(http.StatusServiceUnavailable, "FULL")
	}
	return ok(nil)
}

func checkChannel(q url.Values) answer {
	switch {
	case !present(q, "topic"):
		return badRequest("MISSING_ARG_TOPIC")
	case !meta.NSQName(q.Get("topic")):
		return badRequest("INVALID_ARG_TOPIC")
	case !present(q, "channel"):
		return badRequest("MISSING_ARG_CHANNEL")
	case !meta.NSQName(q.Get("channel")):
		return badRequest("INVALID_ARG_CHANNEL")
	}
	return answer{}
}
