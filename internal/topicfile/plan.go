package topicfile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// existing is what the cluster has of the topics of a file.
type existing struct {
	topics   map[string]*api.Topic
	channels map[string]*api.Channel // by TOPIC/CHANNEL
}

// Step is one change that an import makes.
type Step struct {
	Object string `json:"object"` // TOPIC or TOPIC/CHANNEL
	Change string `json:"change"`

	do    func(ctx context.Context, c *api.Client) error
	check func(ctx context.Context, c *api.Client) error // asks the cluster whether it would be accepted; nil: another step does
}

// planOf returns the changes that make the cluster like a file: topics before channels, since a
// channel may have its dead letters in another topic. An error names a setting that cannot be
// changed, and nothing is to be changed then.
func planOf(f *File, now existing) (steps []Step, err error) {
	for i := range f.Topics {
		more, err := ofTopic(&f.Topics[i], now.topics[f.Topics[i].Name])
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	for i := range f.Topics {
		t := &f.Topics[i]
		for k := range t.Channels {
			more, err := ofChannel(t, now.topics[t.Name] != nil, &t.Channels[k], now.channels[t.Name+"/"+t.Channels[k].Name])
			if err != nil {
				return nil, err
			}
			steps = append(steps, more...)
		}
	}
	return steps, nil
}

func ofTopic(want *Topic, is *api.Topic) (steps []Step, err error) {
	name := want.Name
	add := func(change string, do, check func(context.Context, *api.Client) error) {
		steps = append(steps, Step{name, change, do, check})
	}
	if is == nil {
		req := api.CreateTopic{Name: name, Config: want.Config}
		trial := req
		trial.DryRun = true
		for i := range want.Channels {
			trial.Channels = append(trial.Channels, want.Channels[i].create())
		}
		diff, err := differences(want.Config, struct{}{})
		if err != nil {
			return nil, err
		}
		add("create topic: "+diff.String(),
			func(ctx context.Context, c *api.Client) error { _, err := c.CreateTopic(ctx, req); return err },
			func(ctx context.Context, c *api.Client) error { _, err := c.CreateTopic(ctx, trial); return err })
		is = &api.Topic{}
	} else {
		diff, err := differences(want.Config, is.Config.Patch())
		if err != nil {
			return nil, err
		}
		for _, fixed := range []string{"ordered", "ext"} {
			if d, differs := diff[fixed]; differs {
				return nil, api.Errorf(failure.Invalid, "topic %s: %s is %s and cannot become %s: it is chosen when a topic is created", name, fixed, text(d.is), text(d.want))
			}
		}
		if _, more := diff["partitions"]; more {
			total := *want.Config.Partitions
			if total < is.Config.Partitions {
				return nil, api.Errorf(failure.Invalid, "topic %s: it has %d partitions and cannot have %d: none is ever removed", name, is.Config.Partitions, total)
			}
			add(fmt.Sprintf("partitions: %d -> %d", is.Config.Partitions, total), func(ctx context.Context, c *api.Client) error {
				_, err := c.AddPartitions(ctx, name, total)
				return err
			}, func(ctx context.Context, c *api.Client) error {
				_, err := c.Insights.TryAddPartitions(ctx, name, total)
				return err
			})
			delete(diff, "partitions")
		}
		if len(diff) > 0 {
			var patch api.ConfigPatch
			if err := diff.into(&patch); err != nil {
				return nil, err
			}
			add(diff.String(),
				func(ctx context.Context, c *api.Client) error { _, err := c.AlterTopic(ctx, name, patch); return err },
				func(ctx context.Context, c *api.Client) error {
					_, err := c.Insights.TryAlterTopic(ctx, name, patch)
					return err
				})
		}
	}
	if want.Paused != nil && *want.Paused != is.Paused {
		add(pauseText(*want.Paused), func(ctx context.Context, c *api.Client) error { return c.PauseTopic(ctx, name, *want.Paused) }, nil)
	}
	return steps, nil
}

// create returns the request to create the channel.
func (want *Channel) create() api.CreateChannel {
	req := api.CreateChannel{Name: want.Name, Policy: want.Policy}
	if want.Order != nil {
		req.Order = *want.Order
	}
	if want.Filter != nil {
		req.Filter = *want.Filter
	}
	return req
}

// ofChannel returns the changes of a channel. The channels of a topic that does not exist yet are checked with
// the topic.
func ofChannel(topic *Topic, exists bool, want *Channel, is *api.Channel) (steps []Step, err error) {
	name := topic.Name
	add := func(change string, do func(context.Context, *api.Client) error, check func(context.Context, *api.Client) (*api.Channel, error)) {
		s := Step{Object: name + "/" + want.Name, Change: change, do: do}
		if exists && check != nil {
			s.check = func(ctx context.Context, c *api.Client) error { _, err := check(ctx, c); return err }
		}
		steps = append(steps, s)
	}
	wanted := api.AlterChannel{Order: want.Order, Filter: want.Filter, Policy: want.Policy}
	if is == nil {
		req, trial := want.create(), want.create()
		trial.DryRun = true
		diff, err := differences(wanted, struct{}{})
		if err != nil {
			return nil, err
		}
		add("create channel: "+diff.String(),
			func(ctx context.Context, c *api.Client) error { _, err := c.CreateChannel(ctx, name, req); return err },
			func(ctx context.Context, c *api.Client) (*api.Channel, error) {
				return c.CreateChannel(ctx, name, trial)
			})
		is = &api.Channel{}
	} else {
		diff, err := differences(wanted, is.Settings())
		if err != nil {
			return nil, err
		}
		if len(diff) > 0 {
			var patch api.AlterChannel
			if err := diff.into(&patch); err != nil {
				return nil, err
			}
			trial := patch
			trial.DryRun = true
			add(diff.String(),
				func(ctx context.Context, c *api.Client) error {
					_, err := c.AlterChannel(ctx, name, want.Name, patch)
					return err
				},
				func(ctx context.Context, c *api.Client) (*api.Channel, error) {
					return c.AlterChannel(ctx, name, want.Name, trial)
				})
		}
	}
	if want.Paused != nil && *want.Paused != is.Paused {
		add(pauseText(*want.Paused), func(ctx context.Context, c *api.Client) error {
			return c.PauseChannel(ctx, name, want.Name, *want.Paused)
		}, nil)
	}
	return steps, nil
}

func pauseText(paused bool) string {
	if paused {
		return "pause"
	}
	return "resume"
}

// difference is a setting that differs.
type difference struct{ want, is any }

// diffs are settings that differ, by their names in JSON.
type diffs map[string]difference

// differences returns the settings of want that is does not have. Settings that are groups, such as
// policies, have only what differs in them.
func differences(want, is any) (diffs, error) {
	wanted, err := fields(want)
	if err != nil {
		return nil, err
	}
	has, err := fields(is)
	if err != nil {
		return nil, err
	}
	out := diffs{}
	for name, v := range wanted {
		group, isGroup := v.(map[string]any)
		if !isGroup {
			if !reflect.DeepEqual(v, has[name]) {
				out[name] = difference{v, has[name]}
			}
			continue
		}
		old, _ := has[name].(map[string]any)
		changed, was := map[string]any{}, map[string]any{}
		for k, x := range group {
			if !reflect.DeepEqual(x, old[k]) {
				changed[k], was[k] = x, old[k]
			}
		}
		if len(changed) > 0 {
			out[name] = difference{changed, was}
		}
	}
	return out, nil
}

// fields returns the fields of a value in JSON.
func fields(v any) (out map[string]any, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// into sets the wanted values in a patch.
func (d diffs) into(patch any) error {
	wanted := map[string]any{}
	for name, x := range d {
		wanted[name] = x.want
	}
	raw, err := json.Marshal(wanted)
	if err == nil {
		err = json.Unmarshal(raw, patch)
	}
	return err
}

// String describes the differences.
func (d diffs) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(d)) {
		x := d[name]
		if group, ok := x.want.(map[string]any); ok {
			was, _ := x.is.(map[string]any)
			for _, k := range slices.Sorted(maps.Keys(group)) {
				all = append(all, changeText(name+"."+k, was[k], group[k]))
			}
			continue
		}
		all = append(all, changeText(name, x.is, x.want))
	}
	if len(all) == 0 {
		return "default settings"
	}
	return strings.Join(all, ", ")
}

func changeText(name string, is, want any) string {
	if is == nil {
		return name + ": " + text(want)
	}
	return name + ": " + text(is) + " -> " + text(want)
}

// text writes a value of JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "unset"
	case string:
		if v == "" {
			return `""`
		}
		return v
	case float64:
		return fmt.Sprintf("%.0f", v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
