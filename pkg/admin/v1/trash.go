package v1

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// trashAPI is the topics that were deleted and can be restored.
type trashAPI struct {
	topics topicsAPI
	trash  Trash
}

func (v trashAPI) route(t *API) {
	t.handle("GET /v1/deleted", v.list)
	t.handle("POST /v1/deleted/{topic}/restore", v.restore)
	t.handleTry("DELETE /v1/topics/{topic}", v.remove)
	t.handleTry("DELETE /v1/topics", v.remove)
}

func (v trashAPI) list(*http.Request) (answer, error) {
	out := api.DeletedTopics{Deleted: []api.DeletedTopic{}}
	for _, d := range v.trash.Deleted() {
		out.Deleted = append(out.Deleted, apiDeleted(d))
	}
	return success(out)
}

func apiDeleted(d *meta.Deleted) api.DeletedTopic {
	var nodes []string
	for i := range d.Topic.Partitions {
		for _, id := range d.Topic.Partitions[i].Replicas {
			nodes = append(nodes, string(id))
		}
	}
	slices.Sort(nodes)
	return api.DeletedTopic{
		Name: d.Topic.Name, Incarnation: uint64(d.Topic.Incarnation),
		DeletedAt: time.Unix(0, d.At).UTC(), KeptUntil: d.Until().UTC(),
		Partitions: len(d.Topic.Partitions), Replicas: d.Topic.Config.Replicas,
		Channels: slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(d.Topic.Channels)))),
		Nodes:    slices.Compact(nodes),
	}
}

// restore brings a deleted topic back. A body is not required.
func (v trashAPI) restore(r *http.Request) (answer, error) {
	name := named(r, "topic")
	if !meta.NSQName(name) {
		return answer{}, failure.InvalidTopic
	}
	var req api.RestoreTopic
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	if req.Replaces != 0 && req.Incarnation == 0 {
		return answer{}, api.Errorf(failure.Invalid, "replaces needs the incarnation of the topic to restore: see GET /v1/deleted")
	}
	web.ActOf(r.Context()).DryRun = req.DryRun
	c := meta.RestoreTopic{Name: name, Incarnation: meta.Incarnation(req.Incarnation), Replaces: meta.Incarnation(req.Replaces)}
	if req.DryRun {
		t, err := v.topics.plans.PlanRestore(r.Context(), c)
		if err != nil {
			return answer{}, err
		}
		return success(v.topics.planned(t))
	}
	t, err := v.trash.Restore(r.Context(), c)
	if err != nil {
		return answer{}, err
	}
	return success(v.topics.info(r.Context(), t))
}

// remove deletes a topic: it goes to the trash or, with purge=true, is deleted permanently,
// together with topics of the name in the trash.
func (v trashAPI) remove(r *http.Request) (answer, error) {
	q := r.URL.Query()
	purge, err := yesNo(r, "purge")
	if err != nil {
		return answer{}, err
	}
	in, err := strconv.ParseUint(cmp.Or(q.Get("incarnation"), "0"), 10, 64)
	switch {
	case err != nil:
		return answer{}, api.Errorf(failure.Invalid, "incarnation %q is not a number", q.Get("incarnation"))
	case in != 0 && !purge:
		return answer{}, api.Errorf(failure.Invalid, "incarnation requires purge=true")
	case !purge:
		return v.topics.of(v.topics.delete)(r)
	}
	if dry, err := isDryRun(r); err != nil {
		return answer{}, err
	} else if dry && in != 0 {
		return answer{}, api.Errorf(failure.Invalid, "dry_run shows a topic that is not deleted: omit incarnation")
	} else if dry {
		return v.topics.of(v.topics.delete)(r)
	}
	name := named(r, "topic")
	if !meta.NSQName(name) {
		return answer{}, failure.InvalidTopic
	}
	return done(v.trash.Purge(r.Context(), name, meta.Incarnation(in)))
}

// yesNo reads a parameter of the query that is true or false; false if it is missing.
func yesNo(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	is, err := strconv.ParseBool(cmp.Or(text, "false"))
	if err != nil {
		return false, api.Errorf(failure.Invalid, "%s %q is neither true nor false", name, text)
	}
	return is, nil
}
