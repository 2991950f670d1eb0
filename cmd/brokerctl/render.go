package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

// format is an output format.
type format string

const (
	formatTable  format = "table"
	formatWide   format = "wide"
	formatJSON   format = "json"
	formatNDJSON format = "ndjson"
	formatYAML   format = "yaml"
	formatName   format = "name"
	// formatTemplate is followed by the template.
	formatTemplate format = "go-template"
)

func formatNames() []string {
	return []string{
		string(formatTable), string(formatWide), string(formatJSON),
		string(formatNDJSON), string(formatYAML), string(formatName),
	}
}

func parseFormat(text string) (format, error) {
	if strings.HasPrefix(text, string(formatTemplate)+"=") {
		return formatTemplate, nil
	}
	for _, name := range formatNames() {
		if name == text {
			return format(name), nil
		}
	}
	return formatTable, usageError("unknown output format %q: use one of %s or %s=TEMPLATE", text, strings.Join(formatNames(), ", "), formatTemplate)
}

// view is the result of a command, in all output formats.
type view struct {
	object any           // for json and yaml: the object of /v1
	lines  []any         // for ndjson, one object per line; nil: only object
	names  []string      // for name, one per line
	text   func(p *page) // for table and wide
	order  string        // the default sort column; "": unsorted
	rows   int           // maximum number of rows; 0: all
}

// then adds text to the view.
func (v view) then(more func(p *page)) view {
	text := v.text
	v.text = func(p *page) { text(p); more(p) }
	return v
}

// write prints the view in one form.
func (v view) write(p *page, f format) error {
	switch f {
	case formatJSON:
		return writeJSON(p.w, v.object)
	case formatNDJSON:
		lines := v.lines
		if lines == nil {
			lines = []any{v.object}
		}
		for _, l := range lines {
			if err := writeJSON(p.w, l); err != nil {
				return err
			}
		}
		return nil
	case formatYAML:
		return writeYAML(p.w, v.object)
	case formatName:
		for _, name := range v.names {
			p.line("%s", name)
		}
		return p.err
	case formatTemplate:
		return p.execute(v.object)
	case formatTable, formatWide:
	}
	p.sort, p.rows = v.order, v.rows
	v.text(p)
	return p.err
}

// writeJSON writes one line, so that JSON output is also valid ndjson.
func writeJSON(w io.Writer, object any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(object)
}

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
// written.
func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// page is the output of text. It keeps the first write error.
type page struct {
	w       io.Writer
	wide    bool
	headers bool
	sort    string             // the sort column of the first table; "": unsorted
	rows    int                // maximum rows of the first table; 0: all
	program *template.Template // of -o go-template
	err     error
}

// parseTemplate parses the template of -o go-template=.
func parseTemplate(output string) (*template.Template, error) {
	text := strings.TrimPrefix(output, string(formatTemplate)+"=")
	t, err := template.New("output").Option("missingkey=error").Parse(text)
	if err != nil {
		e := usageError("-o %s: %w", formatTemplate, err)
		e.answer.Hint = "fields are those of -o json: -o '" + string(formatTemplate) + `={{range .channels}}{{.topic}} {{.depth}}{{"\n"}}{{end}}'`
		return nil, e
	}
	return t, nil
}

// execute writes an object with the template, which gets the object of -o json.
func (p *page) execute(object any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keep numbers as written
	var fields any
	if err = d.Decode(&fields); err != nil {
		return err
	}
	var out bytes.Buffer
	if err = p.program.Execute(&out, fields); err != nil {
		return usageError("-o %s: %w", formatTemplate, err)
	}
	if out.Len() > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = p.w.Write(out.Bytes())
	return err
}

// line writes a line.
func (p *page) line(text string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, text+"\n", args...)
	}
}

// columns is a table being built.
type columns struct {
	header []string
	rows   [][]string
}

// newTable starts a table. A header with the prefix + is shown in wide format only.
func newTable(header ...string) *columns { return &columns{header: header} }

// row adds a row. Each cell is formatted by fmt.Sprint; empty cells are filled.
func (c *columns) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if row[i] = fmt.Sprint(cell); row[i] == "" {
			row[i] = "-"
		}
	}
	c.rows = append(c.rows, row)
}

// details writes a table after an empty line, if it has rows.
func (p *page) details(c *columns) {
	if len(c.rows) > 0 {
		p.line("")
		p.table(c)
	}
}

// table writes a table: upper-case headers, two spaces between columns.
func (p *page) table(c *columns) {
	if p.sort != "" {
		if err := c.sort(listing.ParseColumn(p.sort)); err != nil && p.err == nil {
			p.err = err
		}
	}
	if p.rows > 0 && len(c.rows) > p.rows {
		c.rows = c.rows[:p.rows]
	}
	p.sort, p.rows = "", 0 // the following tables are details
	var out bytes.Buffer
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	write := func(cells []string) {
		var shown []string
		for i, cell := range cells {
			if p.wide || !strings.HasPrefix(c.header[i], "+") {
				shown = append(shown, strings.TrimPrefix(cell, "+"))
			}
		}
		_, _ = fmt.Fprintln(tab, strings.Join(shown, "\t")) // to memory
	}
	if p.headers {
		write(c.header)
	}
	for _, r := range c.rows {
		write(r)
	}
	_ = tab.Flush() // to memory
	for l := range strings.Lines(out.String()) {
		p.line("%s", strings.TrimRight(l, " \n"))
	}
}

// listView shows a list: object is the object of /v1, each item is a line of ndjson and has a
// name, and row returns its cells in table t. after writes the text after the table.
func listView[T any](object any, items []T, name func(T) string, t *columns, row func(T) []any, after ...func(p *page)) view {
	return view{object: object, lines: listing.Lines(items), names: listing.Names(items, name), text: func(p *page) {
		for _, item := range items {
			t.row(row(item)...)
		}
		p.table(t)
		for _, f := range after {
			f(p)
		}
	}}
}

// count formats a number with commas: 48,112.
func count[T ~int | ~int64 | ~uint64 | ~uint16](n T) string { return words.Count(n) }

// age formats a duration for people: 1.2s, 42s, 3h12m; "-" for 0.
func age(d api.Duration) string {
	v := time.Duration(d)
	switch {
	case v <= 0:
		return "-"
	case v < time.Second:
		return v.Round(time.Millisecond).String()
	case v < 10*time.Second:
		return v.Round(100 * time.Millisecond).String()
	case v < time.Hour:
		return v.Round(time.Second).String()
	}
	return units.FormatDuration(v.Round(time.Minute))
}

// latency formats a duration with two or three digits: 1.9ms, 31ms, 120µs.
func latency(d time.Duration) string {
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 100*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}

// list formats names with commas; "-" for none.
func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

// plural returns "1 message" or "3 messages".
func plural[T ~int | ~int64 | ~uint64](n T, noun string) string { return words.CountOf(n, noun) }
