package filter

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

// exact is the largest value up to which float64 represents every whole number.
const exact = 1 << 53

// readHeader returns a JSON object as expressions see it. Whole numbers are ints, as in an
// expression: a float64 cannot distinguish large neighbouring ones, and has no remainder operator.
func readHeader(raw []byte) (map[string]any, error) {
	v, err := jsonbytes.Value(raw)
	if err != nil || v == nil {
		return nil, err
	}
	header, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	for name, v := range header {
		header[name] = withNumbers(v)
	}
	return header, nil
}

// withNumbers returns a value with its numbers converted for expressions. It changes the value in
// place.
func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case map[string]any:
		for name, of := range v {
			v[name] = withNumbers(of)
		}
	case []any:
		for i, of := range v {
			v[i] = withNumbers(of)
		}
	}
	return v
}

// number returns an int for a whole number that fits, in any notation, and a float64 for any
// other number.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return int(n)
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil: // it is too large: infinite, with the right sign
		return f
	case f == math.Trunc(f) && math.Abs(f) < exact:
		return int(f)
	}
	return f
}
