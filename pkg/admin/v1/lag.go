package v1

import (
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

// lagAPI returns the lag of channels.
type lagAPI struct{ channels channelsAPI }

func (v lagAPI) route(t *API) {
	t.handle("GET /v1/lag", v.lag)
	t.handle("GET /v1/consumers", v.consumers)
}

// lag is about the channels of all topics, or of those that the query names.
func (v lagAPI) lag(r *http.Request) (answer, error) {
	b := v.channels.topics.broker
	topics, channel := b.Topics(), ""
	q := r.URL.Query()
	switch {
	case q.Get("channel") != "" && q.Get("topic") == "":
		return answer{}, api.Errorf(failure.Invalid, "channel requires topic")
	case q.Get("channel") != "":
		t, name, err := v.channels.known(r)
		if err != nil {
			return answer{}, err
		}
		topics, channel = []*meta.Topic{t}, name
	case q.Get("topic") != "":
		t, err := v.channels.topics.known(r)
		if err != nil {
			return answer{}, err
		}
		topics = []*meta.Topic{t}
	}
	return success(lagOf(topics, b.ClusterStats(r.Context(), q.Get("topic"), channel, false), channel))
}

// lagOf returns the lag of the channels of topics, or of the channel with a name.
func lagOf(topics []*meta.Topic, figures []stats.Topic, channel string) api.Lag {
	byName := make(map[string]*stats.Topic, len(figures))
	for i := range figures {
		byName[figures[i].Name] = &figures[i]
	}
	lag := api.Lag{Channels: []api.ChannelLag{}}
	for _, t := range topics {
		s := byName[t.Name]
		if s == nil {
			s = &stats.Topic{Name: t.Name}
		}
		offline := 0
		for i := range t.Partitions {
			if t.Partitions[i].Leader == "" {
				offline++
			}
		}
		for _, c := range withSilent(t, s.Channels, channel) {
			l := channelLag(t.Name, c)
			l.MissingNodes, l.OfflinePartitions = s.MissingNodes, offline
			lag.Channels = append(lag.Channels, l)
		}
	}
	return lag
}

// withSilent adds the channels of which no leader has reported anything, by name. If a name is
// given, only that one.
func withSilent(t *meta.Topic, told []stats.Channel, channel string) []stats.Channel {
	all := slices.Clone(told)
	for name, c := range t.Channels {
		wanted := channel == "" || channel == name
		if wanted && !slices.ContainsFunc(told, func(s stats.Channel) bool { return s.Name == name }) {
			all = append(all, stats.Channel{Name: name, Paused: c.Paused})
		}
	}
	slices.SortFunc(all, func(a, b stats.Channel) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func channelLag(topic string, c stats.Channel) api.ChannelLag {
	l := api.ChannelLag{
		Topic: topic, Channel: c.Name, Depth: c.Depth, OldestAgeMS: api.Milliseconds(c.OldestAge),
		InPerS: rounded(c.Rates.In), OutPerS: rounded(c.Rates.Out), InPerS15M: rounded(c.Rates.InLong), OutPerS15M: rounded(c.Rates.OutLong),
		InFlight: c.InFlight, Deferred: c.Deferred, Paused: c.Paused,
	}
	if d, ever := c.Rates.DrainsIn(c.Depth, c.InFlight, c.OldestAge); ever {
		l.DrainsInMS = new(api.Milliseconds(d))
	}
	return l
}

// rounded leaves three decimals of a rate.
func rounded(rate float64) float64 { return math.Round(rate*1000) / 1000 }

// consumers lists the consumers of all channels.
func (v lagAPI) consumers(r *http.Request) (answer, error) {
	out := api.ConsumerList{Consumers: []api.TopicConsumer{}}
	for _, t := range v.channels.topics.broker.ClusterStats(r.Context(), "", "", true) {
		out.MissingNodes = words.Union(out.MissingNodes, t.MissingNodes)
		for _, c := range t.Channels {
			for _, k := range apiChannel(t.Name, c).Consumers {
				out.Consumers = append(out.Consumers, api.TopicConsumer{Topic: t.Name, Channel: c.Name, Consumer: k})
			}
		}
	}
	return success(out)
}
