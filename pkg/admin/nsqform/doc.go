// Package nsqform holds what the HTTP endpoints of nsqd and nsqlookupd share: paths and methods,
// parameters, answers, error words, and lookups by name. It does not know the endpoints.
//
// Parameters come from the query string only; a body is always data.
package nsqform
