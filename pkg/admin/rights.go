package admin

import (
	"github.com/brokerd/brokerd/pkg/access"
)

// need is which right a request must have.
type need struct {
	right access.Right // "": see open and known
	// of is where the request has the names of the topic and the channel for the right.
	of place
	// open: all callers, also without an identity.
	open bool
	// known: all callers with an identity.
	known bool
	// always: the right is needed also while access control is off, and the secret of the
	// first administrator is one, too.
	always bool
	// secret: the answer holds hashes of credentials. The right is needed also while access
	// control is off, once there are users.
	secret bool
}

// place is the location of the object's name in a request.
type place uint8

const (
	nowhere place = iota
	atTopic       // in the path, or else in the query: only the topic, any channel
	atChannel
	inBody // the endpoint asks, too: here, the right for some topic is enough
)

var (
	openToAll  = need{open: true}
	anyUser    = need{known: true}
	reading    = need{right: access.Read}
	admin      = need{right: access.Admin}
	changing   = need{right: access.Admin, always: true} // users, tokens and rules
	keeping    = need{right: access.Admin, secret: true}
	publishing = need{right: access.Publish, of: atTopic}
	managing   = need{right: access.Manage, of: atTopic}
	creating   = need{right: access.Manage, of: inBody}
	peekTopic  = need{right: access.Subscribe, of: atTopic}
	peeking    = need{right: access.Subscribe, of: atChannel}
)

// rightsOfV1 are the rights that the endpoints of /v1 require.
var rightsOfV1 = map[string]need{
	"GET /v1/access":                                                   reading,
	"POST /v1/access/enable":                                           changing,
	"POST /v1/access/disable":                                          changing,
	"GET /v1/access/self":                                              anyUser,
	"GET /v1/access/users":                                             changing,
	"POST /v1/access/users":                                            changing,
	"GET /v1/access/users/{user}":                                      changing,
	"DELETE /v1/access/users/{user}":                                   changing,
	"POST /v1/access/users/{user}/password":                            changing,
	"POST /v1/access/users/{user}/grant":                               changing,
	"POST /v1/access/users/{user}/revoke":                              changing,
	"POST /v1/access/users/{user}/tokens":                              changing,
	"GET /v1/access/tokens":                                            changing,
	"DELETE /v1/access/tokens/{id}":                                    changing,
	"GET /v1/access/join-tokens":                                       changing,
	"POST /v1/access/join-tokens":                                      changing,
	"DELETE /v1/access/join-tokens/{id}":                               changing,
	"POST /v1/access/join-tokens/require":                              changing,
	"POST /v1/access/join-tokens/waive":                                changing,
	"GET /v1/audit":                                                    reading,
	"GET /v1/events":                                                   reading,
	"GET /v1/diagnosis":                                                admin,
	"GET /v1/settings":                                                 admin,
	"POST /v1/nodes/{node}/log-level":                                  admin,
	"GET /v1/snapshot":                                                 keeping,
	"GET /v1/cluster":                                                  reading,
	"GET /v1/cluster/health":                                           reading,
	"GET /v1/cluster/balance":                                          reading,
	"POST /v1/cluster/balance":                                         admin,
	"GET /v1/cluster/raft":                                             reading,
	"POST /v1/cluster/raft/transfer":                                   admin,
	"POST /v1/cluster/finalize-upgrade":                                admin,
	"GET /v1/nodes":                                                    reading,
	"GET /v1/nodes/{node}":                                             reading,
	"POST /v1/nodes/{node}/drain":                                      admin,
	"POST /v1/nodes/{node}/undrain":                                    admin,
	"POST /v1/nodes/{node}/decommission":                               admin,
	"DELETE /v1/nodes/{node}":                                          admin,
	"GET /v1/lag":                                                      reading,
	"GET /v1/consumers":                                                reading,
	"GET /v1/dead-letters":                                             reading,
	"GET /v1/deleted":                                                  reading,
	"POST /v1/deleted/{topic}/restore":                                 managing,
	"GET /v1/messages/{id}/trace":                                      reading,
	"GET /v1/partitions":                                               reading,
	"GET /v1/topics":                                                   reading,
	"POST /v1/topics":                                                  creating,
	"DELETE /v1/topics":                                                managing,
	"GET /v1/topics/{topic}":                                           reading,
	"PATCH /v1/topics/{topic}":                                         managing,
	"DELETE /v1/topics/{topic}":                                        managing,
	"POST /v1/topics/{topic}/pause":                                    managing,
	"POST /v1/topics/{topic}/resume":                                   managing,
	"POST /v1/topics/{topic}/empty":                                    managing,
	"GET /v1/topics/{topic}/partitions":                                reading,
	"POST /v1/topics/{topic}/partitions":                               managing,
	"GET /v1/topics/{topic}/verify":                                    reading,
	"GET /v1/topics/{topic}/traces":                                    reading,
	"GET /v1/topics/{topic}/messages":                                  peekTopic,
	"GET /v1/topics/{topic}/messages/{id}":                             peekTopic,
	"POST /v1/topics/{topic}/messages":                                 publishing,
	"GET /v1/topics/{topic}/channels":                                  reading,
	"POST /v1/topics/{topic}/channels":                                 managing,
	"DELETE /v1/channels":                                              managing,
	"POST /v1/topics/{topic}/messages/{id}/copy":                       peekTopic, // and publish, to the other topic
	"GET /v1/topics/{topic}/partitions/{partition}":                    reading,
	"POST /v1/topics/{topic}/partitions/{partition}/transfer":          admin,
	"POST /v1/topics/{topic}/partitions/{partition}/elect":             admin,
	"POST /v1/topics/{topic}/partitions/{partition}/move":              admin,
	"DELETE /v1/topics/{topic}/partitions/{partition}/move":            admin,
	"GET /v1/topics/{topic}/partitions/{partition}/repair":             reading,
	"POST /v1/topics/{topic}/partitions/{partition}/repair":            admin,
	"GET /v1/topics/{topic}/channels/{channel}":                        reading,
	"PATCH /v1/topics/{topic}/channels/{channel}":                      managing,
	"DELETE /v1/topics/{topic}/channels/{channel}":                     managing,
	"GET /v1/topics/{topic}/channels/{channel}/explain":                reading,
	"GET /v1/topics/{topic}/channels/{channel}/history":                reading,
	"GET /v1/topics/{topic}/channels/{channel}/seek":                   reading,
	"POST /v1/topics/{topic}/channels/{channel}/seek":                  managing,
	"POST /v1/topics/{topic}/channels/{channel}/skip":                  managing,
	"POST /v1/topics/{topic}/channels/{channel}/undo":                  managing,
	"POST /v1/topics/{topic}/channels/{channel}/restore":               managing,
	"POST /v1/topics/{topic}/channels/{channel}/pause":                 managing,
	"POST /v1/topics/{topic}/channels/{channel}/resume":                managing,
	"POST /v1/topics/{topic}/channels/{channel}/empty":                 managing,
	"GET /v1/topics/{topic}/channels/{channel}/messages":               peeking,
	"POST /v1/topics/{topic}/channels/{channel}/messages/{id}/finish":  managing,
	"POST /v1/topics/{topic}/channels/{channel}/messages/{id}/requeue": managing,
	"GET /v1/topics/{topic}/channels/{channel}/deferred":               peeking,
	"POST /v1/topics/{topic}/channels/{channel}/deferred/cancel":       managing,
	"POST /v1/topics/{topic}/channels/{channel}/deferred/advance":      managing,
	"GET /v1/topics/{topic}/channels/{channel}/dead-letters":           peeking,
	"POST /v1/topics/{topic}/channels/{channel}/dead-letters/redrive":  managing,
	"POST /v1/topics/{topic}/channels/{channel}/dead-letters/purge":    managing,
}

// rightsOfNode are the rights that the other endpoints of the HTTP address require.
var rightsOfNode = map[string]need{
	"GET /livez":    openToAll,
	"GET /healthz":  openToAll,
	"GET /readyz":   openToAll,
	"GET /startupz": openToAll,
	"GET /ping":     openToAll,
	"GET /metrics":  reading, // or open: see Options.AnonymousMetrics
	"GET /lookup":   anyUser, // or open: see Options.AnonymousLookup
	"GET /topics":   reading,
	"GET /channels": reading,
	"GET /nodes":    anyUser, // likewise

	"GET /metrics/detailed":   reading, // it names clients
	"GET /listlookup":         reading,
	"GET /stats":              reading,
	"GET /info":               reading,
	"GET /config/":            reading,
	"PUT /config/":            admin,
	"POST /pub":               publishing,
	"POST /mpub":              publishing,
	"POST /pub_ext":           publishing,
	"POST /pubtrace":          publishing,
	"POST /topic/create":      managing,
	"POST /topic/delete":      managing,
	"POST /topic/empty":       managing,
	"POST /topic/pause":       managing,
	"POST /topic/unpause":     managing,
	"POST /channel/create":    managing,
	"POST /channel/delete":    managing,
	"POST /channel/empty":     managing,
	"POST /channel/pause":     managing,
	"POST /channel/unpause":   managing,
	"POST /channel/setoffset": managing,

	"GET /debug/pprof/":        admin,
	"GET /debug/pprof":         admin,
	"GET /debug/pprof/cmdline": admin,
	"GET /debug/pprof/profile": admin,
	"GET /debug/pprof/symbol":  admin,
	"POST /debug/pprof/symbol": admin,
	"GET /debug/pprof/trace":   admin,
	"PUT /debug/setblockrate":  admin,
	"POST /debug/freememory":   admin,
}

// rightsOfLookup are the rights that the endpoints of the lookup address require.
var rightsOfLookup = map[string]need{
	"GET /ping":             openToAll,
	"GET /info":             reading,
	"GET /lookup":           anyUser, // or open: see Options.AnonymousLookup
	"GET /topics":           reading,
	"GET /channels":         reading,
	"GET /nodes":            anyUser, // likewise
	"GET /listlookup":       reading,
	"GET /debug":            reading,
	"POST /topic/create":    managing,
	"POST /topic/delete":    managing,
	"POST /topic/tombstone": managing,
	"POST /channel/create":  managing,
	"POST /channel/delete":  managing,
}
