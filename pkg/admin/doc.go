// Package admin is the HTTP interface of a node. It combines the interfaces of nsqd (package nsqd),
// nsqlookupd (lookup; a node is its own lookup) and the operator (v1) with health, metrics, and the
// responses of a node that is starting.
//
// It routes paths. The interfaces read and answer requests; packages web and nsqform hold what they
// share. It owns no listener and starts no goroutine: the caller serves Handler or LookupHandler.
package admin
