package admin

import (
	"maps"
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/lookup"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/admin/web"
)

// Server answers the HTTP requests of a node. Create one with New. Its handlers are safe for use
// by several listeners.
type Server struct {
	node   http.Handler
	lookup http.Handler

	patterns [2][]string // of both, for tests
}

// New returns a Server. It fails without a node.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lookups := lookup.New(o.Lookup, o.Identity)
	publishing := &web.Publishing{Broker: o.Publisher, Bodies: web.NewBodies(o.Memory), Limits: o.Limits, Turns: o.Turns}
	answers := web.NewAnswers(o.Memory, o.Turns)
	o.V1.Publishing, o.V1.Answers, o.V1.Access.Hashing = publishing, answers, o.Guard.Hashing
	o.V1.ConfigFrom = o.ConfigFrom
	api := v1.New(o.V1)
	routes := nodeRoutes(&o, publishing, lookups, answers)
	match := func(r *http.Request) string {
		if v1.Owns(r.URL.Path) {
			return api.Match(r)
		}
		return routes.Match(r)
	}
	node := o.handler(o.gate(&gate{
		needs: o.needs(rightsOfV1, rightsOfNode),
		match: match,
		next: audited{o.V1.Broker, o.ObserveAct, match, func(w http.ResponseWriter, r *http.Request) string {
			if v1.Owns(r.URL.Path) {
				return api.Serve(w, r)
			}
			return routes.Serve(w, r)
		}}.serve,
	}).serve)
	if o.TLSRequired {
		node.PlainMetrics = o.PlainMetrics
		node.WithoutTLS = func(w http.ResponseWriter, _ *http.Request) { nsqform.AnswerWithoutTLS(w, o.Identity.HTTPSPort) }
	}
	found := lookupRoutes(lookups, answers)
	gated := o.gate(&gate{needs: rightsOfLookup, match: found.Match, next: audited{o.V1.Broker, o.ObserveAct, found.Match, found.Serve}.serve})
	return &Server{node: node, lookup: o.handler(gated.serve), patterns: [2][]string{append(routes.Patterns(), api.Patterns()...), found.Patterns()}}, nil
}

// gate completes the gate of an address.
func (o *Options) gate(g *gate) *gate {
	g.guard, g.refused, g.record, g.log, g.open = o.Guard, o.ObserveRefusal, o.V1.Broker.RecordAct, o.Logger, o.anonymous()
	g.recorded.Every, g.recorded.Most = refusalEvery, maxRefusals
	return g
}

// needs returns all rights of an address.
func (o *Options) needs(parts ...map[string]need) map[string]need {
	all := map[string]need{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// anonymous returns the patterns that need no identity by the node's settings.
func (o *Options) anonymous() map[string]bool {
	return map[string]bool{"GET /lookup": o.AnonymousLookup, "GET /nodes": o.AnonymousLookup, "GET /metrics": o.AnonymousMetrics}
}

// Handler serves the HTTP and HTTPS addresses of a node: nsqd's endpoints, the read-only ones of
// nsqlookupd, health, metrics and /v1.
func (s *Server) Handler() http.Handler { return s.node }

// LookupHandler serves nsqlookupd's endpoints in that program's meaning.
func (s *Server) LookupHandler() http.Handler { return s.lookup }

// Refuse implements [web.Refuse]: it answers in the form of the interface that was
// asked.
func Refuse(w http.ResponseWriter, r *http.Request, word string, e *api.Error) {
	if v1.Owns(r.URL.Path) {
		v1.AnswerError(w, e)
		return
	}
	nsqform.Answer(w, nil, &nsqform.Error{Status: e.Code.Status(), Word: word})
}

// nodeRoutes is the HTTP address, but for /v1.
func nodeRoutes(o *Options, publishing *web.Publishing, lookups *lookup.Lookup, answers *web.Answers) *nsqform.Router {
	t := &nsqform.Router{Answers: answers}
	nsqd.Route(t, nsqd.Options{
		Broker: o.NSQD, Publishing: publishing, Lookups: lookups, Identity: o.Identity, Clients: o.Clients,
		Config: o.Config, ConfigFrom: o.ConfigFrom, Figures: o.Figures, Debug: o.Debug,
	})
	lookups.RouteReads(t)
	(&probes{live: o.Live, ready: o.NSQD.Ready}).route(t)
	if o.Metrics != nil {
		t.Handle(http.MethodGet, "/metrics", whole(answers, o.Metrics))
	}
	if o.DetailedMetrics != nil {
		t.Handle(http.MethodGet, "/metrics/detailed", whole(answers, o.DetailedMetrics))
	}
	return t
}

// lookupRoutes is the lookup address.
func lookupRoutes(lookups *lookup.Lookup, answers *web.Answers) *nsqform.Router {
	t := &nsqform.Router{Answers: answers}
	lookups.RouteReads(t)
	lookups.RouteWrites(t)
	return t
}

// handler returns the common handler of all requests of an address.
func (o *Options) handler(serve func(http.ResponseWriter, *http.Request) string) *web.Handler {
	return &web.Handler{Serve: serve, Refuse: Refuse, Observe: o.Observe, Logger: o.Logger, DrainBytes: o.Limits.DrainBytes(), Drops: o.Drops}
}
