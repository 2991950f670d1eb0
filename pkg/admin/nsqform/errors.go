package nsqform

import (
	"errors"
	"net/http"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Error is a failure as an endpoint answers it: a status and a word.
type Error struct {
	Status int
	Word   string
}

// Error returns the word.
func (e *Error) Error() string { return e.Word }

// Refuse returns the Error of a bad request.
func Refuse(word string) error { return &Error{http.StatusBadRequest, word} }

// NotFound returns the Error for a missing object.
func NotFound(word string) error { return &Error{http.StatusNotFound, word} }

// TooLarge returns the Error of a body that is too large, or not as it claims.
func TooLarge(word string) error { return &Error{http.StatusRequestEntityTooLarge, word} }

// errorOf is an error as the endpoints answer it.
func errorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return rowOf(failure.Of(err))
}

// PublishError is the error of a publish as the endpoints answer it.
func PublishError(err error) error { return rowOf(failure.OfPublish(err)) }

func rowOf(k *failure.Kind) *Error { return &Error{k.Code.Status(), k.Word} }

// IsMissing reports whether an error says that a topic or channel was not found.
func IsMissing(err error) bool {
	return err != nil && errorOf(err).Status == http.StatusNotFound && !errors.Is(err, failure.PartitionNotFound)
}

// UnlessMissing returns an error that IsMissing does not know.
func UnlessMissing(err error) error {
	if IsMissing(err) {
		return nil
	}
	return err
}
