// Package nsqform is the form that the HTTP endpoints of nsqd and nsqlookupd share:
// their paths and methods, parameters, answers and words for failures, and what both
// look up by name. It does not know the endpoints.
//
// Parameters come from the query string alone. A body is data.
package nsqform
