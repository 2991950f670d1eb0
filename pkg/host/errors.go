package host

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// AnyPartition lets the broker pick the partition.
const AnyPartition = -1

// OfThisIncarnation returns an error for a topic that was deleted and created again meanwhile.
func OfThisIncarnation(err error) error {
	if errors.Is(err, failure.StaleIncarnation) {
		return failure.TopicNotFound
	}
	return err
}

// Moving reports whether a publish was refused because another node leads, or the leadership is
// being transferred.
func Moving(err error) bool {
	return fate.Of(err) == fate.Refused &&
		(errors.Is(err, failure.NotLeading) || errors.Is(err, failure.Moving) ||
			errors.Is(err, failure.TooFewISR) || errors.Is(err, failure.NoWindow) || errors.Is(err, failure.DiskFull))
}

// channelError is why the metadata of one channel is not applied.
type channelError struct {
	channel string
	err     error
}

func (e *channelError) Error() string { return e.err.Error() }
func (e *channelError) Unwrap() error { return e.err }

// Concerning returns what of an error of Converge concerns a change of a channel, or of the topic
// where channel is "": other channels, which the change did not touch, are left out.
func Concerning(err error, channel string) error {
	switch x := err.(type) { //nolint:errorlint // this walks the tree itself
	case nil:
		return nil
	case *channelError:
		if x.channel != channel {
			return nil
		}
	case interface{ Unwrap() []error }:
		var errs []error
		for _, e := range x.Unwrap() {
			errs = append(errs, Concerning(e, channel))
		}
		return errors.Join(errs...)
	case interface{ Unwrap() error }:
		if inner := x.Unwrap(); inner != nil && Concerning(inner, channel) == nil {
			return nil
		}
	}
	return err
}
