package v1

import (
	"net/http"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// historyAPI undoes operators' changes of channels.
type historyAPI struct{ channels channelsAPI }

func (v historyAPI) route(t *API) {
	t.handle("GET /v1/topics/{topic}/channels/{channel}/seek", v.channels.of(v.plan))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/skip", v.channels.of(withFor(readJSON, v.skip)))
	t.handle("GET /v1/topics/{topic}/channels/{channel}/history", v.channels.topics.of(v.history))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/undo", v.channels.of(v.undo))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/restore", v.channels.topics.of(v.restore))
}

// plan returns the effect of a seek.
func (v historyAPI) plan(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	req, err := seekOf(r)
	if err != nil {
		return answer{}, err
	}
	to, err := seekTo(req)
	if err != nil {
		return answer{}, err
	}
	moves, err := v.channels.topics.broker.PlanMove(r.Context(), t.Name, channel, &to)
	if err != nil {
		return answer{}, err
	}
	return success(api.MovePlan{Topic: t.Name, Channel: channel, Partitions: moves})
}

// seekOf reads a place from a query.
func seekOf(r *http.Request) (req api.Seek, err error) {
	q := r.URL.Query()
	req.To = api.SeekEdge(q.Get("to"))
	if req.Partition, err = partitionOf(q.Get("partition")); err != nil {
		return req, err
	}
	if text := q.Get("offset"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return req, api.Errorf(failure.Invalid, "offset %q is not a number", text)
		}
		req.Offset = &n
	}
	at, err := timeIn(q, "time")
	if q.Get("time") != "" {
		req.Time = &at
	}
	return req, err
}

// skip skips the unfinished messages of a channel in a partition.
func (v historyAPI) skip(r *http.Request, t *meta.Topic, channel string, req api.Skip) (answer, error) {
	if req.To > uint64(seq.MaxOffset) {
		return answer{}, api.Errorf(failure.Invalid, "to is %d, exceeds the maximum, %d", req.To, uint64(seq.MaxOffset))
	}
	err := v.channels.topics.broker.SeekChannel(r.Context(), t.Name, channel, operate.SeekTo{Offset: new(seq.Offset(req.To)), Partition: &req.Partition, Forward: true})
	if err != nil {
		return answer{}, err
	}
	return success(v.channels.info(r.Context(), t, channel))
}

// named returns the channel of a request, which need not exist.
func (v historyAPI) named(r *http.Request) (string, error) {
	channel := named(r, "channel")
	if !meta.NSQName(channel) {
		return "", failure.InvalidChannel
	}
	return channel, nil
}

func (v historyAPI) history(r *http.Request, t *meta.Topic) (answer, error) {
	channel, err := v.named(r)
	if err != nil {
		return answer{}, err
	}
	all, err := v.channels.topics.broker.ChannelHistory(t.Name, channel)
	if err != nil {
		return answer{}, err
	}
	out := api.ChannelHistory{Topic: t.Name, Channel: channel, Saved: []api.SavedPosition{}}
	for _, s := range all {
		out.Saved = append(out.Saved, savedPosition(s))
	}
	return success(out)
}

func savedPosition(s *meta.Saved) api.SavedPosition {
	p := api.SavedPosition{ID: s.Index, At: time.Unix(0, s.At).UTC(), Verb: s.Verb, Partitions: []api.SavedPartition{}}
	for _, q := range s.Partitions {
		p.Partitions = append(p.Partitions, api.SavedPartition{Partition: q.Partition, Confirmed: uint64(q.Floor), MovedTo: uint64(q.Target)})
	}
	return p
}

func (v historyAPI) undo(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	return reply(v.channels.topics.broker.UndoChannel(r.Context(), t.Name, channel))
}

func (v historyAPI) restore(r *http.Request, t *meta.Topic) (answer, error) {
	channel, err := v.named(r)
	if err != nil {
		return answer{}, err
	}
	var req struct {
		Replace bool `json:"replace"`
		DryRun  bool `json:"dry_run"`
	}
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	if web.ActOf(r.Context()).DryRun = req.DryRun; req.DryRun {
		moves, err := v.channels.topics.broker.PlanMove(r.Context(), t.Name, channel, &operate.SeekTo{Deleted: true, Replace: req.Replace})
		if err != nil {
			return answer{}, err
		}
		return success(api.MovePlan{Topic: t.Name, Channel: channel, Partitions: moves})
	}
	return reply(v.channels.topics.broker.RestoreChannel(r.Context(), t.Name, channel, req.Replace))
}
