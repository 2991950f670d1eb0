package v1

import (
	"net/url"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// numberIn parses the parameter n of a query, with a minimum, and a default if it is missing.
func numberIn(q url.Values, otherwise, least int) (int, error) {
	text := q.Get("n")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, api.Errorf(failure.Invalid, "n is %q, must be a number of at least %d", text, least)
	}
	return n, nil
}

// timeIn reads a parameter of a query that is a time; without it, it is the zero time.
func timeIn(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, api.Errorf(failure.Invalid, "%s %q is not a time such as 2026-11-21T06:00:00Z", name, text)
	}
	return at, nil
}
