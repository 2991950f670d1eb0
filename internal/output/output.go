// Package output prints the results of commands: a View as a table, as JSON or YAML, as names or
// through a template. Its errors about what the user asked for have the code failure.Usage.
package output

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Format is an output format.
type Format string

// The output formats.
const (
	FormatTable  Format = "table"
	FormatWide   Format = "wide"
	FormatJSON   Format = "json"
	FormatNDJSON Format = "ndjson"
	FormatYAML   Format = "yaml"
	FormatName   Format = "name"
	// FormatTemplate is followed by the template.
	FormatTemplate Format = "go-template"
)

// Formats returns the names of the formats without a template.
func Formats() []string {
	return []string{
		string(FormatTable), string(FormatWide), string(FormatJSON),
		string(FormatNDJSON), string(FormatYAML), string(FormatName),
	}
}

// ParseFormat returns the format that a user has named.
func ParseFormat(text string) (Format, error) {
	if strings.HasPrefix(text, string(FormatTemplate)+"=") {
		return FormatTemplate, nil
	}
	if slices.Contains(Formats(), text) {
		return Format(text), nil
	}
	return FormatTable, usage("unknown output format %q: use one of %s or %s=TEMPLATE", text, strings.Join(Formats(), ", "), FormatTemplate)
}

func usage(text string, args ...any) *api.Error { return api.Errorf(failure.Usage, text, args...) }

// View is the result of a command, in all output formats.
type View struct {
	Object any           // for json and yaml: the object of /v1
	Lines  []any         // for ndjson, one object per line; nil: only Object
	Names  []string      // for name, one per line
	Text   func(p *Page) // for table and wide
	Order  string        // the default sort column; "": unsorted
	Rows   int           // maximum number of rows; 0: all
}

// List shows a list: object is the object of /v1, each item is a line of ndjson and has a
// name, and row returns its cells in table t. after writes the text after the table.
func List[T any](object any, items []T, name func(T) string, t *Table, row func(T) []any, after ...func(p *Page)) View {
	return View{Object: object, Lines: listing.Lines(items), Names: listing.Names(items, name), Text: func(p *Page) {
		for _, item := range items {
			t.Row(row(item)...)
		}
		p.Table(t)
		for _, f := range after {
			f(p)
		}
	}}
}

// Then adds text to the view.
func (v View) Then(more func(p *Page)) View {
	text := v.Text
	v.Text = func(p *Page) { text(p); more(p) }
	return v
}

// Write prints the view in one form.
func (v View) Write(p *Page, f Format) error {
	v, err := v.arranged(f)
	if err != nil {
		return err
	}
	switch f {
	case FormatJSON:
		return WriteJSON(p.w, v.Object)
	case FormatNDJSON:
		lines := v.Lines
		if lines == nil {
			lines = []any{v.Object}
		}
		for _, l := range lines {
			if err := WriteJSON(p.w, l); err != nil {
				return err
			}
		}
		return nil
	case FormatYAML:
		return writeYAML(p.w, v.Object)
	case FormatName:
		for _, name := range v.Names {
			p.Line("%s", name)
		}
		return p.err
	case FormatTemplate:
		return p.execute(v.Object)
	case FormatTable, FormatWide:
	}
	p.sort, p.rows = v.Order, v.Rows
	v.Text(p)
	return p.err
}

// arranged returns the view in its sort order, limited to its rows, for programs. Tables are
// sorted when they are printed.
func (v View) arranged(f Format) (View, error) {
	if f == FormatTable || f == FormatWide || len(v.Lines) == 0 {
		return v, nil
	}
	if v.Order != "" {
		s, err := v.sheet().Sorted(listing.ParseColumn(v.Order))
		if err != nil {
			return v, usage("--sort-by: %w", err)
		}
		v.Object, v.Lines, v.Names = s.Object, s.Lines, s.Names
	}
	if v.Rows > 0 && len(v.Lines) > v.Rows {
		places := make([]int, v.Rows)
		for i := range places {
			places[i] = i
		}
		s := v.sheet().Picked(places)
		v.Object, v.Lines, v.Names = s.Object, s.Lines, s.Names
	}
	return v, nil
}

func (v View) sheet() listing.Sheet {
	return listing.Sheet{Object: v.Object, Lines: v.Lines, Names: v.Names}
}

// WriteJSON writes one line, so that JSON output is also valid ndjson.
func WriteJSON(w io.Writer, object any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(object)
}

// oldBooleans are what YAML 1.1 reads as true or false, and YAML 1.2 as text.
var oldBooleans = []string{"y", "n", "yes", "no", "on", "off"}

// writeYAML converts JSON, so that both have the same names and order.
func writeYAML(w io.Writer, object any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil {
		return err
	}
	blockStyle(&node)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

// blockStyle removes the braces and quotes of JSON; strings that need quotes are quoted again when
// written. Words that YAML 1.1 reads as true or false, as many programs do, keep their quotes.
func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode && !slices.Contains(oldBooleans, strings.ToLower(n.Value)) {
		n.Style = 0
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}
