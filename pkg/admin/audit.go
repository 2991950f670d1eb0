package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// Maximum sizes of the texts of a request in the audit log.
const (
	maxReason  = 500
	maxRequest = 500
	maxText    = 200
	maxState   = 800 // of the object before and after
)

// audited records operators' changes over HTTP.
type audited struct {
	broker  v1.Broker
	observe func(action string, status int)
	// match returns the pattern of the endpoint of next for a request, with its method; "" if there is none.
	match func(*http.Request) string
	next  func(http.ResponseWriter, *http.Request) string
}

// serve answers a request, and records it if it changes something. A request without an endpoint changes nothing.
func (a audited) serve(w http.ResponseWriter, r *http.Request) string {
	pattern := a.match(r)
	if !changes(r, pattern) {
		return a.next(w, r)
	}
	act := &attempt{
		Act: actOf(r, pattern, guard.CallerOf(r.Context())), object: objectOf(r, pattern), secret: aboutAccess(r.URL.Path), body: &firstBytes{r: r.Body},
	}
	act.Before = a.state(act.object)
	ctx, noted := web.WithAct(r.Context())
	r = r.WithContext(ctx)
	if !act.secret {
		r.Body = act.body
	}
	status := &statusOnly{ResponseWriter: w, status: http.StatusOK}
	ended := false
	defer func() {
		if act.Status = status.status; !ended { // it panicked: the change may have been made or not
			act.Status, noted.Fate = http.StatusInternalServerError, fate.Uncertain
		}
		a.observe(pattern, act.Status)
		if ended && strings.HasPrefix(act.Verb, http.MethodDelete+" /v1/nodes/") {
			// A node that has removed itself is about to end: it answers first.
			_ = http.NewResponseController(w).Flush()
		}
		if !noted.DryRun {
			a.record(r, act, noted)
		}
	}()
	path := a.next(status, r)
	ended = true
	return path
}

// attempt is an act that is being carried out.
type attempt struct {
	meta.Act
	object string // not clipped
	secret bool   // its path and body may hold credentials
	body   *firstBytes
}

// record adds an act that has ended to the audit log.
func (a audited) record(r *http.Request, act *attempt, noted *web.Act) {
	object := act.object
	if noted.Created != "" {
		object = strings.TrimPrefix(object+"/"+noted.Created, "/")
		act.Object = clipped(object, maxText)
	}
	act.Request = clipped(strings.TrimSpace(strings.Join([]string{queryOf(r.URL), string(act.body.seen)}, " ")), maxRequest)
	if act.secret {
		act.Object, act.Request = clipped(noted.Object, maxText), clipped(noted.Text, maxRequest)
	}
	if act.After = a.state(object); act.After == act.Before {
		act.Before, act.After = "", ""
	}
	a.broker.RecordAct(r.Context(), act.Act, noted.Fate)
}

// actOf returns the act of a request to the endpoint of a pattern, without its body and outcome.
func actOf(r *http.Request, pattern string, by guard.Caller) meta.Act {
	return meta.Act{
		At: time.Now().UnixNano(), Actor: r.RemoteAddr, Identity: clipped(cmp.Or(by.Name(), identityOf(r), systemUserOf(r, by)), maxText), Agent: clipped(r.UserAgent(), maxText),
		Verb: clipped(r.Method+" "+r.URL.Path, maxText), Object: clipped(objectOf(r, pattern), maxText), Reason: reasonOf(r),
	}
}

// aboutAccess reports whether a request is about users, tokens and rules: of its body, which may
// contain credentials, only what the endpoint notes is recorded.
func aboutAccess(path string) bool {
	return path == api.PathAccess || strings.HasPrefix(path, api.PathAccess+"/")
}

// changes reports whether a request to the endpoint of a pattern is an operator's and may change something; one without
// an endpoint changes nothing. The pattern decides, not the path: a name in the path may be any word.
func changes(r *http.Request, pattern string) bool {
	_, path, _ := strings.Cut(pattern, " ")
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return false
	case v1.Owns(path):
		return !strings.HasSuffix(path, "/messages") // publishers are no operators
	}
	for _, prefix := range []string{"/topic/", "/channel/", "/config/", "/debug/setblockrate", "/debug/freememory"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// objectOf returns the object of a request to the endpoint of a pattern: TOPIC, TOPIC/CHANNEL, TOPIC/PARTITION or a
// node. Of the parameters, it reads those alone that the endpoint reads.
func objectOf(r *http.Request, pattern string) string {
	if node, ok := nameInPath(r, pattern, "node"); ok {
		return node
	}
	topic, ok := nameInPath(r, pattern, "topic")
	rest, _ := nameInPath(r, pattern, "channel")
	if partition, of := nameInPath(r, pattern, "partition"); of {
		rest = partition
	}
	_, path, _ := strings.Cut(pattern, " ")
	if q := r.URL.Query(); !ok && (!v1.Owns(path) || r.Method == http.MethodDelete && !aboutAccess(path)) {
		if topic = q.Get("topic"); strings.Contains(path, "/channel") {
			rest = q.Get("channel")
		}
	}
	if rest == "" {
		return topic
	}
	return topic + "/" + rest
}

// state describes a topic or a channel as the metadata has it; "" if none.
func (a audited) state(object string) string {
	name, channel, _ := strings.Cut(object, "/")
	t, err := a.broker.Topic(name)
	if name == "" || err != nil {
		return ""
	}
	var v any = struct {
		Config meta.TopicConfig `json:"config"`
		Paused bool             `json:"paused"`
	}{t.Config, t.Paused}
	if channel != "" {
		c := t.Channels[channel]
		if c == nil {
			return ""
		}
		v = struct {
			Ordered bool          `json:"ordered"`
			Order   policy.Order  `json:"order,omitempty"`
			Paused  bool          `json:"paused"`
			Policy  policy.Policy `json:"policy,omitzero"`
			Filter  string        `json:"filter,omitempty"`
		}{c.Order == policy.Strict, c.Order, c.Paused, c.Policy, c.Filter}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return clipped(string(raw), maxState)
}

// identityOf returns the identity of a verified client certificate; "" if there is none.
func identityOf(r *http.Request) string {
	if c := guard.Verified(r.TLS); c != nil {
		return c.Subject.String()
	}
	return ""
}

// systemUserOf returns what a client says of its operating system's user, while access control is off and a request has
// no other identity; "" otherwise.
func systemUserOf(r *http.Request, by guard.Caller) string {
	name := r.Header.Get(api.SystemUserHeader)
	if name == "" || by.Directory.On() {
		return ""
	}
	return meta.SystemUser + name
}

func reasonOf(r *http.Request) string {
	return clipped(cmp.Or(r.Header.Get(api.ReasonHeader), r.URL.Query().Get("reason")), maxReason)
}

// queryOf returns the parameters of a request that are not part of its object or reason.
func queryOf(u *url.URL) string {
	q := u.Query()
	for _, known := range []string{"topic", "channel", "reason"} {
		q.Del(known)
	}
	return q.Encode()
}

// clipped truncates a text, makes it fit for one line, and removes the secrets of tokens.
func clipped(text string, most int) string {
	text = access.Redact(text)
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text), "?")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}

// firstBytes keeps the first bytes that are read of a body.
type firstBytes struct {
	r    io.ReadCloser
	seen []byte
}

func (b *firstBytes) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if room := maxRequest + 1 - len(b.seen); room > 0 {
		b.seen = append(b.seen, bytes.Clone(p[:min(n, room)])...)
	}
	return n, err
}

func (b *firstBytes) Close() error { return b.r.Close() }

// statusOnly records the status of a response.
type statusOnly struct {
	http.ResponseWriter
	status int
}

func (w *statusOnly) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }
