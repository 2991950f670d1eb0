package checks

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// State is the result state of a check. Its number is the exit code of a
// plugin.
type State uint8

// The states.
const (
	OK       State = iota
	Warning        // an operator should look at it today
	Critical       // requests of clients are refused, or will be soon
	Unknown        // the state could not be determined
)

// String returns the state as a word.
func (s State) String() string {
	if s > Unknown {
		s = Unknown
	}
	return [...]string{"ok", "warning", "critical", "unknown"}[s]
}

// MarshalJSON writes the word.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// graver reports whether a state is worse than another.
func (s State) graver(than State) bool {
	order := [...]int{OK: 0, Warning: 1, Unknown: 2, Critical: 3}
	return order[s] > order[than]
}

// Result is the answer of a check.
type Result struct {
	Check   string   `json:"check"` // what was checked: cluster, channel, disk, cert or raft
	State   State    `json:"state"`
	Summary string   `json:"summary"` // one line, for people
	Details []string `json:"details"` // what was found, a line each
	Figures []Figure `json:"figures"`
}

// Figure is a checked number. Warn and Crit are nil if there is no limit.
type Figure struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"` // "", seconds or bytes
	Warn  *float64 `json:"warn,omitempty"`
	Crit  *float64 `json:"crit,omitempty"`
}

// failed is the result of a check whose requests failed.
func failed(check string, s State, why string) Result {
	return Result{Check: check, State: s, Summary: why, Details: []string{}, Figures: []Figure{}}
}

// begin returns a result without findings.
func begin(check string) Result { return failed(check, OK, "") }

// find adds a finding with its state.
func (r *Result) find(s State, text string, args ...any) {
	text = fmt.Sprintf(text, args...)
	if s.graver(r.State) {
		r.State, r.Summary = s, text
	}
	r.Details = append(r.Details, fmt.Sprintf("%s: %s", s, text))
}

// end sets the summary of a result without findings.
func (r *Result) end(text string, args ...any) Result {
	if r.State == OK {
		r.Summary = fmt.Sprintf(text, args...)
	} else if n := len(r.Details) - 1; n > 0 {
		r.Summary += fmt.Sprintf(" (and %d more)", n)
	}
	return *r
}

func (r *Result) figure(name string, value float64, unit string, limits ...*float64) {
	f := Figure{Name: name, Value: value, Unit: unit}
	if len(limits) == 2 {
		f.Warn, f.Crit = limits[0], limits[1]
	}
	r.Figures = append(r.Figures, f)
}

// The forms of a result as text.
const (
	FormNagios     = "nagios"
	FormPrometheus = "prometheus"
	FormJSON       = "json"
)

// Forms lists the forms.
func Forms() []string { return []string{FormNagios, FormPrometheus, FormJSON} }

// Write writes the result in one of the forms.
func (r *Result) Write(w io.Writer, form string) (err error) {
	switch form {
	case FormPrometheus:
		return r.WritePrometheus(w)
	case FormJSON:
		return json.NewEncoder(w).Encode(r)
	}
	_, err = io.WriteString(w, r.Nagios())
	return err
}

// Nagios returns the result in the form of a plugin's output: the state, the summary and the figures
// on the first line, the details on the following lines.
func (r *Result) Nagios() string {
	var out strings.Builder
	fmt.Fprintf(&out, "BROKERD %s %s - %s", strings.ToUpper(r.Check), strings.ToUpper(r.State.String()), oneLine(r.Summary))
	for i, f := range r.Figures {
		before := " "
		if i == 0 {
			before = " | "
		}
		unit := map[string]string{"seconds": "s", "bytes": "B"}[f.Unit]
		fmt.Fprintf(&out, "%s'%s'=%s%s", before, strings.ReplaceAll(f.Name, "'", "''"), number(&f.Value), unit)
		if f.Warn != nil || f.Crit != nil {
			fmt.Fprintf(&out, ";%s;%s", number(f.Warn), number(f.Crit))
		}
	}
	out.WriteByte('\n')
	for _, d := range r.Details {
		out.WriteString(oneLine(d))
		out.WriteByte('\n')
	}
	return out.String()
}

// oneLine removes characters from a text that would end its line, or begin the figures.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "|", "/").Replace(text)
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// WritePrometheus writes the result as metrics for the textfile collector of node_exporter.
func (r *Result) WritePrometheus(w io.Writer) error {
	var out strings.Builder
	out.WriteString("# HELP brokerd_check_state What brokerctl check found: 0 ok, 1 warning, 2 critical, 3 unknown.\n# TYPE brokerd_check_state gauge\n")
	fmt.Fprintf(&out, "brokerd_check_state{check=%q} %d\n", r.Check, r.State)
	if len(r.Figures) > 0 {
		out.WriteString("# HELP brokerd_check_value A number that brokerctl check looked at.\n# TYPE brokerd_check_value gauge\n")
	}
	for _, f := range r.Figures {
		fmt.Fprintf(&out, "brokerd_check_value{check=%q,name=%q,unit=%q} %s\n", r.Check, f.Name, f.Unit, number(&f.Value))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
