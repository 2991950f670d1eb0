package output

import "time"

// Answer is what a command found out, or did, in the simplest form: an object, a line about it, and
// a table.
type Answer struct {
	Object any      // for JSON
	Lines  []any    // an object a line; nil: Object is one
	Names  []string // for -o name
	Header []string // of a table after Said; nil: none
	Rows   [][]any
	Said   string
	Result bool // Said is a result: it is shown with -q, too
}

// View returns the answer in all output formats. quiet: only results are shown.
func (a Answer) View(quiet bool) View {
	return View{Object: a.Object, Lines: a.Lines, Names: a.Names, Text: func(p *Page) {
		if a.Said != "" && (a.Result || !quiet) {
			p.Line("%s", a.Said)
		}
		if a.Header == nil {
			return
		}
		t := NewTable(a.Header...)
		for _, row := range a.Rows {
			t.Row(row...)
		}
		p.Table(t)
	}}
}

// Time formats a time as commands accept it.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
