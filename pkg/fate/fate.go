// Package fate classifies what an error means for the data: refused (nothing changed),
// uncertain (it may have happened), or corrupt (stored data is damaged). Every failure that
// reaches an operator or a client has a fate.
package fate

import "errors"

// Fate is what happened to the data of an operation that failed.
type Fate uint8

// The fates. An error without one is Uncertain: the cautious reading.
const (
	// Uncertain: it may have happened, now or later.
	Uncertain Fate = iota
	// Refused: nothing was changed.
	Refused
	// Corrupt: stored data is damaged.
	Corrupt
)

// String returns the fate's name.
func (f Fate) String() string {
	switch f {
	case Refused:
		return "refused"
	case Corrupt:
		return "corrupt"
	case Uncertain:
	}
	return "uncertain"
}

// Of returns the fate that the outermost marked error in err's chain carries.
func Of(err error) Fate {
	var m interface{ Fate() Fate }
	if errors.As(err, &m) {
		return m.Fate()
	}
	return Uncertain
}

type marked struct {
	error
	fate Fate
}

func (m marked) Fate() Fate    { return m.fate }
func (m marked) Unwrap() error { return m.error }

// Mark returns err with a fate. A nil err stays nil.
func Mark(err error, f Fate) error {
	if err == nil {
		return nil
	}
	return marked{err, f}
}

// Refuse returns a new error of the given text that is marked Refused. It is
// meant for sentinels.
func Refuse(text string) error { return marked{errors.New(text), Refused} }
