package admin

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/lookup"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	v1 "github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/stats"
)

// Options configures a Server. The node is required; other zero values disable a feature, or mean
// the default of its type.
type Options struct {
	// The node, as used by each interface.
	Publisher web.Publisher
	NSQD      nsqd.Broker
	Lookup    lookup.Broker
	V1        v1.Options // New sets Publishing, Answers and Access.Hashing
	// Guard authenticates callers. nil: every caller may do everything, except change users and
	// rules.
	Guard *guard.Guard
	// AnonymousLookup opens /lookup and /nodes, and AnonymousMetrics opens /metrics, to all
	// callers while access control is on.
	AnonymousLookup, AnonymousMetrics bool

	Identity nsqform.Identity
	Limits   web.Limits
	// Memory is charged for bodies and long answers. nil: no limit.
	Memory *limit.Memory
	// Turns limits how many requests perform long computations at a time. nil: no limit.
	Turns *limit.Turns
	// Drops limits the rate of reading refused bodies. nil: no limit.
	Drops *limit.Drops
	// Clients returns all connections of the node, for the producers in /stats.
	Clients func() []stats.Client
	// Config serves /config. nil: no option is known.
	Config nsqd.Config
	// ConfigFrom are the networks of clients that may change options, and profile.
	ConfigFrom web.Networks
	// Metrics serves /metrics, and DetailedMetrics /metrics/detailed.
	Metrics, DetailedMetrics http.Handler
	// Observe is called with every request. It must not block.
	Observe func(web.Exchange)
	// ObserveAct is called with every operator action: its method with the pattern of its path,
	// and the status of the response. It must not block.
	ObserveAct func(action string, status int)
	// ObserveRefusal is called with every request that access control refuses. Optional.
	ObserveRefusal func()
	// Live returns why the process should be killed. nil, or an empty result: it should not. It
	// must not depend on other nodes.
	Live func() []health.Reason
	// TLSRequired answers every request without TLS with TLS_REQUIRED, except probes, which rarely
	// have certificates.
	TLSRequired bool
	// Figures define how depths and latencies are converted to the form of nsqd.
	Figures nsqd.Figures
	// PlainMetrics serves /metrics without TLS, even if TLS is required.
	PlainMetrics bool
	// Debug serves /debug/pprof, /debug/setblockrate and /debug/freememory to ConfigFrom.
	Debug bool
	// Logger gets the panics of handlers. nil: they are not logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Publisher.Sender == nil || o.NSQD.Node == nil || o.Lookup.Directory == nil || !o.V1.Complete() {
		return o, errors.New("admin: options lack a part of the broker")
	}
	o.Limits = o.Limits.WithDefaults()
	if o.Guard == nil {
		o.Guard = guard.New(guard.Options{Directory: o.V1.Access.Directory})
	}
	if o.Clients == nil {
		o.Clients = func() []stats.Client { return nil }
	}
	o.Config = cmp.Or[nsqd.Config](o.Config, noConfig{})
	if o.Observe == nil {
		o.Observe = func(web.Exchange) {}
	}
	if o.ObserveRefusal == nil {
		o.ObserveRefusal = func() {}
	}
	if o.ObserveAct == nil {
		o.ObserveAct = func(string, int) {}
	}
	if o.Live == nil {
		o.Live = func() []health.Reason { return nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

// noConfig knows no option.
type noConfig struct{}

func (noConfig) Option(string) (any, bool)      { return nil, false }
func (noConfig) SetOption(string, []byte) error { return nsqd.ErrUnknownOption }
