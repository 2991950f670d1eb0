package fate

import "errors"

// Brief returns an error that reads as the first of some known errors that it wraps, for those
// who need not know the paths and names of the whole error, which it wraps as well. An error that
// wraps none of them stays as it is.
func Brief(err error, known ...error) error {
	for _, k := range known {
		if errors.Is(err, k) {
			return brief{k, err}
		}
	}
	return err
}

// brief is an error that says only what its sentinel says.
type brief struct{ sentinel, whole error }

func (e brief) Error() string   { return e.sentinel.Error() }
func (e brief) Unwrap() []error { return []error{e.sentinel, e.whole} }
