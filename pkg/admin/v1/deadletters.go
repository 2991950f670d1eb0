package v1

import (
	"errors"
	"net/http"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// deadLettersAPI is the dead letters of channels.
type deadLettersAPI struct{ messages messagesAPI }

func (v deadLettersAPI) route(t *API) {
	of := v.messages.channels.of
	t.handle("GET /v1/dead-letters", v.list)
	t.handleCharged("GET /v1/topics/{topic}/channels/{channel}/dead-letters", of(v.peek))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/dead-letters/redrive", of(v.redriveOrPurge(false)))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/dead-letters/purge", of(v.redriveOrPurge(true)))
}

func (v deadLettersAPI) policies() Policies { return v.messages.channels.policies }

func (v deadLettersAPI) list(r *http.Request) (answer, error) {
	q := r.URL.Query()
	chosen := q.Get("filter")
	if err := validFilter(chosen); err != nil {
		return answer{}, err
	}
	list := api.DeadLetterList{Channels: []api.DeadLetters{}}
	for _, l := range v.policies().DeadLetters(r.Context(), q.Get("topic"), q.Get("channel")) {
		if chosen != "" { // the filter chooses those to count
			if err := guard.CallerOf(r.Context()).Allow(access.Demand{Right: access.Subscribe, Topic: l.Topic, Channel: l.Channel}); err != nil {
				return answer{}, err
			}
			some, err := v.policies().RedriveOrPurge(r.Context(), operate.DeadLetterAction{Topic: l.Topic, Channel: l.Channel, Max: deadletter.MaxBatch, DryRun: true, Purge: true, Filter: chosen})
			if err != nil {
				return answer{}, err
			}
			l.Waiting = int64(some.Letters)
		}
		list.Channels = append(list.Channels, l)
	}
	return success(list)
}

// peek returns the first dead letters of a channel, those that a filter chooses.
func (v deadLettersAPI) peek(r *http.Request, t *meta.Topic, name string) (answer, error) {
	n, err := numberIn(r.URL.Query(), defaultPeek, 1)
	if err != nil {
		return answer{}, err
	}
	chosen := r.URL.Query().Get("filter")
	if err := validFilter(chosen); err != nil {
		return answer{}, err
	}
	list := api.DeadLetterMessages{Messages: []api.DeadLetter{}}
	letters := v.policies().LettersOf(t, name)
	if letters == "" {
		return success(list)
	}
	share := v.messages.memory.Share(limit.Answers)
	if err := share.Reserve(r.Context(), peekGrowth*(peekBytes+v.messages.publishing.Limits.MaxMessage)); err != nil {
		return answer{}, err
	}
	messages, err := v.messages.channels.topics.broker.Peek(r.Context(), operate.Peek{
		Topic: letters, Channel: deadletter.Channel, Partition: host.AnyPartition, Max: n, Bytes: peekBytes,
		Filter: chosen, Letters: &operate.LettersOf{Topic: t.Name, Channel: name},
	})
	if errors.Is(err, failure.ChannelNotFound) { // the first dead letter creates it
		err = nil
	}
	if err != nil {
		share.Close()
		return answer{}, err
	}
	size := 0
	for _, m := range messages {
		o, err := deadletter.ReadOrigin(m.Header)
		if err != nil {
			continue // the responding leaders chose none
		}
		size += len(m.Body) + len(m.Header)
		list.Messages = append(list.Messages, api.DeadLetter{Origin: api.DeadLetterOrigin(o.Text()), Peeked: apiPeeked(m)})
	}
	return answer{status: http.StatusOK, value: list, turns: v.messages.turnsFor(size), written: share.Close}, nil
}

// redriveOrPurge brings dead letters back, or purges them.
func (v deadLettersAPI) redriveOrPurge(purge bool) func(*http.Request, *meta.Topic, string) (answer, error) {
	return withFor(readJSON, func(r *http.Request, t *meta.Topic, channel string, req api.DeadLetterAction) (answer, error) {
		if req.Max < 1 || req.Max > deadletter.MaxBatch {
			return answer{}, api.Errorf(failure.Invalid, "max is %d, must be 1 to %d", req.Max, deadletter.MaxBatch)
		}
		if err := validFilter(req.Filter); err != nil {
			return answer{}, err
		}
		web.ActOf(r.Context()).DryRun = req.DryRun
		s, err := v.policies().RedriveOrPurge(r.Context(), operate.DeadLetterAction{Topic: t.Name, Channel: channel, Max: req.Max, Purge: purge, DryRun: req.DryRun, Filter: req.Filter})
		if err != nil {
			return answer{}, err
		}
		return success(api.DeadLetterResult{Topic: t.Name, Channel: channel, Count: s.Letters, More: s.More, Skipped: s.Skipped, DryRun: req.DryRun})
	})
}
