package nsq

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Error is the content of an error frame.
type Error struct {
	Code failure.Wire
	Text string // "": only the code
	Ends bool   // the connection ends, although it does not with every error of the code
}

// Errorf returns an Error of a formatted text.
func Errorf(code failure.Wire, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Error returns the data of the error frame: the code, a space and the text.
func (e *Error) Error() string {
	if e.Text == "" && e.Code == failure.BadProtocol {
		return e.Code.String()
	}
	return e.Code.String() + " " + e.Text
}

// Fatal reports whether the connection ends with the error.
func (e *Error) Fatal() bool { return e.Ends || e.Code.Fatal() }
