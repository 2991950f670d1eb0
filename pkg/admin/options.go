package admin

import (
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

// Options configures a Server. The node is required; what else is zero is off, or
// has the default that its type names.
type Options struct {
	// The node, as each interface asks it.
	Publisher web.Publisher
	NSQD      nsqd.Broker
	Lookup    lookup.Broker
	V1        v1.Broker
	Operator  v1.Operator
	Policies  v1.Policies
	Deferrals v1.Deferrals
	Trash     v1.Trash
	Traces    v1.Traces
	Upgrades  v1.Upgrades
	Access    v1.Accesses
	// Guard lets callers in. nil: everybody may everything, but change who may do what.
	Guard *guard.Guard
	// AnonymousLookup has /lookup and /nodes, AnonymousMetrics has /metrics answered to
	// everybody while access control is on.
	AnonymousLookup, AnonymousMetrics bool
	// Diagnose says what the process is, for a debug bundle. nil: nothing is told.
	Diagnose v1.Diagnose
	// Snapshot returns the metadata, for a copy of it. nil: none is given.
	Snapshot v1.Snapshot

	Identity nsqform.Identity
	Limits   web.Limits
	// Memory is charged for bodies and long answers. nil: no limit.
	Memory *limit.Memory
	// Turns bounds how many requests do at a time what takes a processor for long. nil:
	// there is no bound.
	Turns *limit.Turns
	// Drops paces what is read of refused bodies. nil: no limit.
	Drops *limit.Drops
	// Clients returns all connections of the node, for the producers in /stats.
	Clients func() []stats.Client
	// Config serves /config. nil: no option is known.
	Config nsqd.Config
	// ConfigFrom is where clients come from that may change options, and profile.
	ConfigFrom web.Networks
	// Metrics serves /metrics.
	Metrics http.Handler
	// Observe is told of every request. It must not block.
	Observe func(web.Exchange)
	// ObserveAct is told of every act of an operator: its method and the pattern of its
	// path, "other" for an unknown one, and the status of the answer. It must not block.
	ObserveAct func(action string, status int)
	// ObserveRefusal is told of every request that access control refuses. nil: nobody is.
	ObserveRefusal func()
	// Startup returns how much of the start is done, from 0 to 1. nil: all.
	Startup func() float64
	// Live says why the process should be killed. nil, or an empty answer: it
	// should not. It must not depend on other nodes.
	Live func() []health.Reason
	// TLSRequired answers every request without TLS with TLS_REQUIRED, but for
	// those of probes: what probes has seldom a certificate.
	TLSRequired bool
	// Figures tell how depths and latencies are put in the form of nsqd.
	Figures nsqd.Figures
	// PlainMetrics has /metrics answer without TLS, too, where it is required.
	PlainMetrics bool
	// Debug serves /debug/pprof, /debug/setblockrate and /debug/freememory to ConfigFrom.
	Debug bool
	// Logger gets the panics of handlers. nil: they are not logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Publisher.Sender == nil || o.NSQD.Node == nil || o.Lookup.Directory == nil || o.V1.TopicReader == nil || o.Operator.NodeOperator == nil || o.Policies == nil || o.Deferrals == nil || o.Trash == nil || o.Traces == nil || o.Upgrades == nil || o.Access == nil {
		return o, errors.New("admin: no broker")
	}
	o.Limits = o.Limits.WithDefaults()
	if o.Guard == nil {
		o.Guard = guard.New(guard.Options{Directory: o.Access.Directory})
	}
	if o.Clients == nil {
		o.Clients = func() []stats.Client { return nil }
	}
	if o.Config == nil {
		o.Config = noConfig{}
	}
	if o.Observe == nil {
		o.Observe = func(web.Exchange) {}
	}
	if o.ObserveRefusal == nil {
		o.ObserveRefusal = func() {}
	}
	if o.ObserveAct == nil {
		o.ObserveAct = func(string, int) {}
	}
	if o.Startup == nil {
		o.Startup = func() float64 { return 1 }
	}
	if o.Live == nil {
		o.Live = func() []health.Reason { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// noConfig knows no option.
type noConfig struct{}

func (noConfig) Option(string) (any, bool)      { return nil, false }
func (noConfig) SetOption(string, []byte) error { return nsqd.ErrUnknownOption }
