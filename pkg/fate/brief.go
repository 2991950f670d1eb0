package fate

import "errors"

// Brief returns an error with the text of the first of the known errors that it wraps, for readers
// who do not need the paths and names of the whole error. The result wraps the whole error as well.
// An error that wraps none of them is returned unchanged.
func Brief(err error, known ...error) error {
	for _, k := range known {
		if errors.Is(err, k) {
			return brief{k, err}
		}
	}
	return err
}

// brief is an error with only the text of its sentinel.
type brief struct{ sentinel, whole error }

func (e brief) Error() string   { return e.sentinel.Error() }
func (e brief) Unwrap() []error { return []error{e.sentinel, e.whole} }
