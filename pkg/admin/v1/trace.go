package v1

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Traces returns trace events of messages: an operate.Traces.
type Traces interface {
	Trace(ctx context.Context, q trace.Query) (operate.Traced, error)
}

// traceAPI serves trace events of messages.
type traceAPI struct {
	topics topicsAPI
	traces Traces
}

func (v traceAPI) route(t *API) {
	t.handle("GET /v1/messages/{id}/trace", v.one)
	t.handle("GET /v1/topics/{topic}/traces", v.several)
}

// one answers for the message whose id the path has.
func (v traceAPI) one(r *http.Request) (answer, error) {
	text := r.PathValue("id")
	id, err := seq.ParseID([]byte(text))
	if err != nil {
		return answer{}, api.Errorf(failure.Invalid, "%q is not a message id: it has 16 hexadecimal digits", text)
	}
	candidates := map[uint64]*meta.Topic{} // by incarnation
	q := trace.Query{}
	only := r.URL.Query().Get("topic")
	for _, t := range v.topics.broker.Topics() {
		m, ok := v.topics.numbering(t).Place(id)
		if only != "" && t.Name != only || !ok || m.Partition() >= len(t.Partitions) {
			continue
		}
		candidates[uint64(t.Incarnation)] = t
		q.Messages = append(q.Messages, trace.Message{Incarnation: uint64(t.Incarnation), ID: m})
	}
	if len(q.Messages) == 0 {
		return answer{}, v.nowhere(only, text)
	}
	found, err := v.traces.Trace(r.Context(), q)
	if err != nil {
		return answer{}, err
	}
	var lives []trace.Life
	var names []string
	for _, l := range found.Lives {
		if t := candidates[l.Message.Incarnation]; t != nil {
			lives, names = append(lives, l), append(names, t.Name)
		}
	}
	switch len(lives) {
	case 0:
		return answer{}, untraced(q.Messages, candidates, text, found.Silent)
	case 1:
		out := v.trace(candidates[lives[0].Message.Incarnation], lives[0])
		out.Missing, out.Truncated = found.Silent, found.Truncated
		return success(out)
	}
	return answer{}, notFound(api.Errorf(failure.Invalid, "message id %s is in the range of topics %s: name one with topic=", text, strings.Join(names, ", ")))
}

func (v traceAPI) nowhere(only, id string) error {
	if only == "" {
		return notFound(api.Errorf(failure.NotFound, "message %s belongs to no topic", id))
	}
	t, err := v.topics.broker.Topic(only)
	if err != nil {
		return err
	}
	return notFound(api.Errorf(failure.NotFound, "message %s does not belong to topic %q, whose ids begin at %s", id, only, v.topics.numbering(t).First()))
}

// untraced explains why there are no trace events of a message.
func untraced(asked []trace.Message, candidates map[uint64]*meta.Topic, id string, silent []string) error {
	e := notFound(api.Errorf(failure.NotFound, "no trace of message %s: it was not traced, or its events have been deleted as the oldest", id))
	if len(asked) == 1 {
		t := candidates[asked[0].Incarnation]
		e.Hint = "messages of topic " + t.Name + " are traced by its rule " + strconv.Quote(t.Config.Trace) + "; change it with brokerctl topic alter " + t.Name + " --trace on"
		switch t.Config.Trace {
		case "on":
			e.Hint = "messages of topic " + t.Name + " are traced since the rule was set; a larger trace-size keeps events longer"
		case "":
			e.Hint = "messages of topic " + t.Name + " are not traced; switch it on with brokerctl topic alter " + t.Name + " --trace on"
		}
	}
	if len(silent) > 0 {
		e.Message += "; nodes that did not answer may have more: " + strings.Join(silent, ", ")
	}
	return e
}

// several answers for the messages of a topic that have a trace id or a key.
func (v traceAPI) several(r *http.Request) (answer, error) {
	t, err := v.topics.known(r)
	if err != nil {
		return answer{}, err
	}
	p := r.URL.Query()
	q := trace.Query{Incarnation: uint64(t.Incarnation)}
	text, key := p.Get("trace_id"), p.Get("key")
	switch {
	case (text == "") == (key == ""):
		return answer{}, api.Errorf(failure.Invalid, "name either trace_id or key")
	case key != "":
		q.KeyHash = trace.HashKey([]byte(key))
	default:
		if q.TraceID, err = strconv.ParseUint(text, 0, 64); err != nil || q.TraceID == 0 {
			return answer{}, api.Errorf(failure.Invalid, "trace_id is %q, must be a number of 64 bits, decimal or with 0x, and not 0", text)
		}
	}
	found, err := v.traces.Trace(r.Context(), q)
	if err != nil {
		return answer{}, err
	}
	out := api.TraceList{Topic: t.Name, Messages: []api.MessageTrace{}, Missing: found.Silent, Truncated: found.Truncated}
	for _, l := range found.Lives {
		out.Messages = append(out.Messages, v.trace(t, l))
	}
	return success(out)
}

// trace puts the life of a message in the form of /v1.
func (v traceAPI) trace(t *meta.Topic, l trace.Life) api.MessageTrace {
	ids := v.topics.numbering(t)
	out := api.MessageTrace{
		ID: ids.ID(l.Message.ID).String(), Topic: t.Name, Partition: l.Message.ID.Partition(), Seq: uint64(l.Message.ID.Offset()),
		Events: make([]api.TraceEvent, 0, len(l.Events)),
	}
	for i := range l.Events {
		e := &l.Events[i]
		x := api.TraceEvent{
			Time: e.When().UTC(), Node: e.Node, What: e.What.String(), Attempt: e.Attempt, Channel: e.Channel, DelayMS: e.Delay.Milliseconds(),
		}
		if e.What == trace.Published {
			x.Publisher, x.Through = e.Client, e.Note
		} else {
			x.Consumer, x.Reason = e.Client, e.Note
		}
		if e.Message != l.Message {
			x.CopyID = ids.ID(e.Message.ID).String()
		}
		out.Events = append(out.Events, x)
	}
	return out
}

// patchTrace changes which messages of a topic are traced.
func patchTrace(c *meta.TopicConfig, text *string) error {
	if text == nil {
		return nil
	}
	rule, err := sampling.ParseRule(*text)
	if err != nil {
		return api.Errorf(failure.Invalid, "%w", err)
	}
	c.Trace = rule.String()
	return nil
}
