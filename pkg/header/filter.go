package header

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/fate"
)

// errFilter is returned for an invalid filter.
var errFilter = fate.Refuse("invalid header filter")

// Bounds of a filter.
const (
	maxFilterText  = 1024 // bytes of each text
	maxFilterParts = 64   // of a filter with several parts
)

// The kinds of filters.
const (
	kindExact  = 1
	kindRegexp = 2
	kindGlob   = 3
	kindMulti  = 4
)

// part compares the value of one key.
type part struct {
	Key  string `json:"filter_ext_key"`
	Data string `json:"filter_data"`
}

// spec is a filter as clients write it.
type spec struct {
	Kind    int  `json:"type"`
	Inverse bool `json:"inverse"`
	part
	List []part `json:"filter_data_list"`
}

// Filter chooses messages by their headers. It is immutable.
type Filter struct {
	raw     []byte
	inverse bool
	keys    []string // that the filter reads
	matches func(values map[string]string) bool
}

// ParseFilter reads a filter: a JSON object as in IDENTIFY. Without one, with null, or with an object
// that chooses all, it returns nil.
func ParseFilter(raw []byte) (*Filter, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var s *spec
	if err := jsonbytes.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", errFilter, err)
	}
	if s == nil || s.all() {
		return nil, nil
	}
	for _, p := range append(s.List, s.part) {
		if len(p.Key) > maxFilterText || len(p.Data) > maxFilterText {
			return nil, fmt.Errorf("%w: a text has more than %d bytes", errFilter, maxFilterText)
		}
	}
	f := &Filter{raw: raw, inverse: s.Inverse, keys: []string{s.Key}}
	var err error
	switch s.Kind {
	case kindExact:
		f.matches = s.equal
	case kindRegexp:
		err = f.search(s.Key, s.Data)
	case kindGlob:
		err = f.search(s.Key, globRegexp(s.Data))
	case kindMulti:
		err = f.several(s)
	default:
		err = fmt.Errorf("type %d is unknown", s.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFilter, err)
	}
	return f, nil
}

// all reports whether a filter chooses all messages: one of type 0, and one without a key or without a
// text. youzan's Java client sends the latter if its user has set no filter.
func (s *spec) all() bool {
	return s.Kind == 0 || s.Kind >= kindExact && s.Kind <= kindGlob && s.empty()
}

// empty reports whether a part has no key or no text.
func (p part) empty() bool { return p.Key == "" || p.Data == "" }

// equal reports whether the key of a part has the part's value.
func (p part) equal(values map[string]string) bool {
	v, ok := values[p.Key]
	return ok && v == p.Data
}

// search chooses messages whose value of a key matches a pattern. A header without a text for the key
// has the empty text.
func (f *Filter) search(key, pattern string) error {
	re, err := regexp.Compile(pattern)
	f.matches = func(values map[string]string) bool { return re.MatchString(values[key]) }
	return err
}

func (f *Filter) several(s *spec) error {
	if len(s.List) == 0 || len(s.List) > maxFilterParts {
		return fmt.Errorf("a list of %d parts, 1 to %d are valid", len(s.List), maxFilterParts)
	}
	if s.Key != "any" && s.Key != "all" {
		return fmt.Errorf("%.20q is neither any nor all", s.Key)
	}
	any := s.Key == "any"
	f.keys = nil
	for _, p := range s.List {
		if p.empty() {
			return errors.New("a part has no key or no text")
		}
		f.keys = append(f.keys, p.Key)
	}
	f.matches = func(values map[string]string) bool {
		for _, p := range s.List {
			if p.equal(values) == any {
				return any
			}
		}
		return !any
	}
	return nil
}

// globRegexp returns the regular expression of a glob: * matches any text, ? a character,
// [...] one of a set, {a,b} one of several, and \ makes the next character literal.
func globRegexp(glob string) string {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '*':
			b.WriteString(`.*`)
		case c == '?':
			b.WriteString(`.`)
		case c == '{':
			depth++
			b.WriteString(`(?:`)
		case c == '}' && depth > 0:
			depth--
			b.WriteString(`)`)
		case c == ',' && depth > 0:
			b.WriteString(`|`)
		case c == '[':
			end := strings.IndexByte(glob[i:], ']')
			if end < 0 {
				b.WriteString(`[`) // does not compile
				break
			}
			set := glob[i+1 : i+end]
			not := ""
			if strings.HasPrefix(set, "!") {
				not, set = "^", set[1:]
			}
			b.WriteString("[" + not + strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(set) + "]")
			i += end
		case c == '\\' && i+1 < len(glob):
			i++
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	b.WriteString(`\z`)
	return b.String()
}

// Raw returns the text of the filter; nil if f is nil.
func (f *Filter) Raw() []byte {
	if f == nil {
		return nil
	}
	return f.raw
}

// Match reports whether the filter chooses a message with a header, or without one. A nil filter
// chooses all.
func (f *Filter) Match(raw []byte) bool {
	if f == nil {
		return true
	}
	members, ok := jsonbytes.Members(raw)
	if !ok {
		return f.inverse
	}
	values := make(map[string]string, len(f.keys))
	for name, value := range members {
		if !slices.Contains(f.keys, string(name)) {
			continue
		}
		if text, ok := jsonbytes.Text(value); ok {
			values[string(name)] = string(text)
		} else {
			delete(values, string(name)) // of an earlier member with the name
		}
	}
	return f.matches(values) != f.inverse
}

// TagOf returns the tag of a header that was checked when it was published; ""
// if there is no header or no tag.
func TagOf(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	said, _ := Parse(raw) // it was checked when it was published
	return said.Tag
}
