package filter

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// exact is up to which value each whole number is a float64 of its own.
const exact = 1 << 53

// readHeader returns a JSON object as expressions see it. Whole numbers are ints, as they are in an
// expression: a float64 takes large ones for their neighbours, and has no remainder.
func readHeader(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var header map[string]any
	if err := d.Decode(&header); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	for name, v := range header {
		header[name] = withNumbers(v)
	}
	return header, nil
}

// withNumbers returns a value with its numbers as expressions have them. It changes what the value
// consists of.
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

// number returns an int for a whole number that has one, however it is written, and a float64 for
// any other.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return int(n)
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil: // it is too large: infinite, on the right side
		return f
	case f == math.Trunc(f) && math.Abs(f) < exact:
		return int(f)
	}
	return f
}
