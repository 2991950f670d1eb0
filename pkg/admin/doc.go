// Package admin is what a node says over HTTP: it puts together the interfaces of
// nsqd (package nsqd), nsqlookupd (lookup; a node is its own lookup) and the operator
// (v1), health and metrics, and says what a node answers that is starting.
//
// It knows which path is whose. How requests are read and answered the interfaces
// know, and what they have in common packages web and nsqform. It owns no listener and
// starts no goroutine; whoever has a listener serves Handler or LookupHandler on it.
package admin
