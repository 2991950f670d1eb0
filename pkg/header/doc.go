// Package header parses the header of a message: a JSON object that the publisher sends beside the
// body. Keys that begin with ## are reserved for the broker; all others belong to consumers and
// pass through unchanged.
//
// It knows JSON and the reserved keys. It does not know how a header reaches the broker or where it
// is stored.
package header
