package lookupd

import (
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/meta"
)

// directoryAPI serves the endpoints of nsqlookupd from a directory.
type directoryAPI struct {
	dir     *Directory
	version string
	now     func() time.Time
}

// Handler returns the lookup daemon's HTTP API over d. /info reports version.
func Handler(d *Directory, version string) http.Handler {
	api := &directoryAPI{dir: d, version: version, now: time.Now}
	var routes nsqform.Router
	routes.Plain(http.MethodGet, "/ping", func(*http.Request) (any, error) { return "OK", nil })
	routes.Add(http.MethodGet, "/info", api.info)
	routes.Add(http.MethodGet, "/debug", api.debug)
	routes.Add(http.MethodGet, "/lookup", api.lookup)
	routes.Add(http.MethodGet, "/topics", api.topics)
	routes.Add(http.MethodGet, "/channels", api.channels)
	routes.Add(http.MethodGet, "/nodes", api.nodes)
	routes.Add(http.MethodPost, "/topic/create", api.createTopic)
	routes.Add(http.MethodPost, "/topic/delete", api.deleteTopic)
	routes.Add(http.MethodPost, "/topic/tombstone", api.tombstone)
	routes.Add(http.MethodPost, "/channel/create", api.createChannel)
	routes.Add(http.MethodPost, "/channel/delete", api.deleteChannel)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { routes.Serve(w, r) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (api *directoryAPI) info(*http.Request) (any, error) {
	return map[string]string{"version": api.version}, nil
}

func (api *directoryAPI) debug(*http.Request) (any, error) { return api.dir.Dump(api.now()), nil }

func (api *directoryAPI) topics(*http.Request) (any, error) {
	return map[string][]string{"topics": api.dir.Topics()}, nil
}

func (api *directoryAPI) nodes(*http.Request) (any, error) {
	return map[string][]NodeTopics{"producers": api.dir.Nodes(api.now())}, nil
}

func (api *directoryAPI) channels(r *http.Request) (any, error) {
	topic, err := nsqform.ExistingTopic(r)
	return map[string][]string{"channels": api.dir.Channels(topic)}, err
}

func (api *directoryAPI) lookup(r *http.Request) (any, error) {
	topic, err := nsqform.ExistingTopic(r)
	if err != nil {
		return nil, err
	}
	channels, nodes, known := api.dir.Lookup(topic, api.now())
	if !known {
		return nil, nsqform.NotFound("TOPIC_NOT_FOUND")
	}
	return struct {
		Channels  []string           `json:"channels"`
		Producers []nsqform.Producer `json:"producers"`
	}{channels, nodes}, nil
}

func (api *directoryAPI) createTopic(r *http.Request) (any, error) {
	topic, err := nsqform.ExistingTopic(r)
	if err == nil && !meta.NSQName(topic) {
		err = nsqform.Refuse("INVALID_ARG_TOPIC")
	}
	if err != nil {
		return nil, err
	}
	return nil, api.register(topic, "")
}

func (api *directoryAPI) deleteTopic(r *http.Request) (any, error) {
	topic, err := nsqform.ExistingTopic(r)
	if err == nil {
		api.dir.DeleteTopic(topic)
	}
	return nil, err
}

func (api *directoryAPI) tombstone(r *http.Request) (any, error) {
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	topic, err := p.Needed("topic", "MISSING_ARG_TOPIC")
	if err != nil {
		return nil, err
	}
	node, err := p.Needed("node", "MISSING_ARG_NODE")
	if err == nil {
		api.dir.Tombstone(topic, node, api.now())
	}
	return nil, err
}

func (api *directoryAPI) createChannel(r *http.Request) (any, error) {
	topic, channel, err := nsqform.ChannelParams(r)
	if err != nil {
		return nil, err
	}
	return nil, api.register(topic, channel)
}

func (api *directoryAPI) deleteChannel(r *http.Request) (any, error) {
	topic, channel, err := nsqform.ChannelParams(r)
	if err == nil && !api.dir.DeleteChannel(topic, channel) {
		err = nsqform.NotFound("CHANNEL_NOT_FOUND")
	}
	return nil, err
}

func (api *directoryAPI) register(topic, channel string) error {
	if err := api.dir.Register(0, topic, channel); err != nil {
		return &nsqform.Error{Status: http.StatusServiceUnavailable, Word: "FULL"}
	}
	return nil
}
