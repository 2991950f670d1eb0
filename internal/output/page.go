package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/brokerd/brokerd/internal/listing"
)

// Page is where views are printed. It keeps the first write error.
type Page struct {
	Wide bool // tables have all columns

	w       io.Writer
	headers bool
	sort    string             // the sort column of the first table; "": unsorted
	rows    int                // maximum rows of the first table; 0: all
	program *template.Template // of FormatTemplate
	err     error
}

// NewPage returns a page. program is that of FormatTemplate; nil: none.
func NewPage(w io.Writer, wide, headers bool, program *template.Template) *Page {
	return &Page{w: w, Wide: wide, headers: headers, program: program}
}

// ParseTemplate parses the template of -o go-template=.
func ParseTemplate(output string) (*template.Template, error) {
	text := strings.TrimPrefix(output, string(FormatTemplate)+"=")
	t, err := template.New("output").Option("missingkey=error").Parse(text)
	if err != nil {
		e := usage("-o %s: %w", FormatTemplate, err)
		e.Hint = "fields are those of -o json: -o '" + string(FormatTemplate) + `={{range .channels}}{{.topic}} {{.depth}}{{"\n"}}{{end}}'`
		return nil, e
	}
	return t, nil
}

// execute writes an object with the template, which gets the object of -o json.
func (p *Page) execute(object any) error {
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
		return usage("-o %s: %w", FormatTemplate, err)
	}
	if out.Len() > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = p.w.Write(out.Bytes())
	return err
}

// Line writes a line.
func (p *Page) Line(text string, args ...any) {
	p.With(func(w io.Writer) error {
		_, err := fmt.Fprintf(w, text+"\n", args...)
		return err
	})
}

// With calls f with the page's writer, unless writing has failed.
func (p *Page) With(f func(io.Writer) error) {
	if p.err == nil {
		p.err = f(p.w)
	}
}

// Table is a table being built.
type Table struct {
	header []string
	rows   [][]string
}

// NewTable starts a table. A header with the prefix + is shown in wide format only.
func NewTable(header ...string) *Table { return &Table{header: header} }

// Row adds a row. Each cell is formatted by fmt.Sprint; empty cells are filled.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if row[i] = fmt.Sprint(cell); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// sort sorts the rows of a table.
func (t *Table) sort(by listing.Column) error {
	i, ok := by.In(t.header)
	if !ok {
		return usage("--sort-by: no column %q in %s", by.Name, strings.Join(listing.Names(t.header, func(h string) string { return strings.TrimPrefix(h, "+") }), ", "))
	}
	slices.SortStableFunc(t.rows, func(a, b []string) int { return by.Order(a[i], b[i]) })
	return nil
}

// Details writes a table after an empty line, if it has rows.
func (p *Page) Details(t *Table) {
	if len(t.rows) > 0 {
		p.Line("")
		p.Table(t)
	}
}

// Table writes a table: upper-case headers, two spaces between columns.
func (p *Page) Table(t *Table) {
	if p.sort != "" {
		if err := t.sort(listing.ParseColumn(p.sort)); err != nil && p.err == nil {
			p.err = err
		}
	}
	if p.rows > 0 && len(t.rows) > p.rows {
		t.rows = t.rows[:p.rows]
	}
	p.sort, p.rows = "", 0 // the following tables are details
	var out bytes.Buffer
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	write := func(cells []string) {
		var shown []string
		for i, cell := range cells {
			if p.Wide || !strings.HasPrefix(t.header[i], "+") {
				shown = append(shown, strings.TrimPrefix(cell, "+"))
			}
		}
		_, _ = fmt.Fprintln(tab, strings.Join(shown, "\t")) // to memory
	}
	if p.headers {
		write(t.header)
	}
	for _, r := range t.rows {
		write(r)
	}
	_ = tab.Flush() // to memory
	for l := range strings.Lines(out.String()) {
		p.Line("%s", strings.TrimRight(l, " \n"))
	}
}
