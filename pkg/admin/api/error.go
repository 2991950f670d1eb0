package api

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Error is a failure, as answered by /v1 and returned by the Client.
type Error struct {
	Code    failure.Code `json:"code"`
	Message string       `json:"message"`        // the error, a sentence without full stop
	Hint    string       `json:"hint,omitempty"` // a remedy
	Fate    string       `json:"fate,omitempty"` // the fate of the data
	// Lost is the damaged range that a request for messages begins in, if no replica holds it intact. Consumers skip it.
	Lost  *DamageRange `json:"lost,omitempty"`
	cause error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the client-side cause; nil for an answer of the broker.
func (e *Error) Unwrap() error { return e.cause }

// Errorf returns an Error of a code with a formatted message. %w works.
func Errorf(code failure.Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: err}
}

// ErrorAnswer is the body of every unsuccessful answer.
type ErrorAnswer struct {
	Error *Error `json:"error"`
}
