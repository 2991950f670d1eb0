// Package rightstest is the list of who may use which HTTP endpoint of a node, for tests. It is written by hand from
// the documentation and knows nothing of pkg/admin: tests compare what a node answers with it.
package rightstest

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/access"
)

//go:embed rights.txt
var list string

// Address is an address of a node that serves HTTP.
type Address string

// The addresses with endpoints.
const (
	Node   Address = "node"
	Lookup Address = "lookup"
)

// Names of callers that are no users.
const (
	Stranger = "stranger" // without an identity
	First    = "first"    // with the secret of the first administrator
	Admin    = "admin"    // a user, named because most endpoints let it in
)

// User is a caller with an identity.
type User struct {
	Name  string
	Rules []access.Rule
}

// Users returns the callers with an identity: each has one kind of right to the topic t or its channel c.
func Users() []User {
	return []User{
		{"none", nil},
		{"read", []access.Rule{{Right: access.Read}}},
		{"publish", []access.Rule{{Right: access.Publish, Topic: "t"}}},
		{"subscribe", []access.Rule{{Right: access.Subscribe, Topic: "t", Channel: "c"}}},
		{"channel", []access.Rule{{Right: access.Subscribe, Topic: "t", Channel: "d"}}},
		{"manage", []access.Rule{{Right: access.Manage, Topic: "t"}}},
		{"elsewhere", []access.Rule{
			{Right: access.Publish, Topic: "other"}, {Right: access.Subscribe, Topic: "other", Channel: "*"}, {Right: access.Manage, Topic: "other"},
		}},
		{"copy", []access.Rule{{Right: access.Subscribe, Topic: "t", Channel: "d"}, {Right: access.Publish, Topic: "other"}}},
		{Admin, []access.Rule{{Right: access.Admin}}},
	}
}

// Callers returns the names of all callers.
func Callers() []string {
	names := []string{Stranger, First}
	for _, u := range Users() {
		names = append(names, u.Name)
	}
	return names
}

// empty is the body of requests for which the list has none.
const empty = "{}"

// Row says who may use an endpoint.
type Row struct {
	Address Address
	Pattern string // method and path, as the endpoint is registered
	// On are the callers that are let in while access control is on.
	On []string
	// Always: the same ones are needed while it is off.
	Always bool
	// UsersExist: the same ones are needed while it is off and there are users.
	UsersExist bool

	query, body string
}

// Mode is a state of access control.
type Mode uint8

// The modes.
const (
	On      Mode = iota
	Off          // there are users
	NoUsers      // it is off, and there are none
)

// Allows reports whether a caller is let in. Callers without an identity of a user are the ones to ask about while there
// are no users.
func (r *Row) Allows(caller string, m Mode) bool {
	switch {
	case m == Off && !r.Always && !r.UsersExist, m == NoUsers && !r.Always:
		return true
	}
	return slices.Contains(r.On, caller)
}

// Request returns method, target and body of a request to the endpoint: of the topic t, its channel c, the partition 0,
// and a node, a user and a message that there are not.
func (r *Row) Request() (method, target, body string) {
	fill := strings.NewReplacer("{topic}", "t", "{channel}", "c", "{partition}", "0", "{node}", "n9", "{user}", "absent", "{id}", "0000000000000001")
	method, path, _ := strings.Cut(r.Pattern, " ")
	target = fill.Replace(path)
	var query []string
	if !strings.Contains(path, "{topic}") && r.body == empty { // a body may name the topic
		query = append(query, "topic=t")
	}
	if !strings.Contains(path, "{channel}") { // no right depends on it where the endpoint reads none
		query = append(query, "channel=c")
	}
	if r.query != "" {
		query = append(query, r.query)
	}
	if len(query) > 0 {
		target += "?" + strings.Join(query, "&")
	}
	return method, target, r.body
}

// Rows returns the list.
func Rows() ([]Row, error) {
	var rows []Row
	var at Address
	for n, line := range strings.Split(list, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "", line[0] == '#':
			continue
		case line[0] == '[':
			at = Address(strings.Trim(line, "[]"))
			continue
		}
		r, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("rights.txt:%d: %w", n+1, err)
		}
		r.Address = at
		rows = append(rows, r)
	}
	return rows, nil
}

// parse reads a row.
func parse(line string) (Row, error) {
	columns := strings.SplitN(line, "|", 3)
	if len(columns) < 2 {
		return Row{}, fmt.Errorf("%q names no callers", line)
	}
	r := Row{Pattern: strings.TrimSpace(columns[0]), body: empty}
	for _, name := range strings.Fields(columns[1]) {
		switch {
		case name == "anyone":
			r.On = Callers()
		case name == "users":
			r.On = slices.DeleteFunc(Callers(), func(c string) bool { return c == Stranger || c == First })
		case slices.Contains(Callers(), name):
			r.On = append(r.On, name)
		default:
			return Row{}, fmt.Errorf("there is no caller %q", name)
		}
	}
	if len(columns) < 3 {
		return r, nil
	}
	switch c := strings.TrimSpace(columns[2]); {
	case c == "always":
		r.Always = true
	case c == "users-exist":
		r.UsersExist = true
	case strings.HasPrefix(c, "to="):
		r.query = c
	case strings.HasPrefix(c, "{"):
		r.body = c
	default:
		return Row{}, fmt.Errorf("there is no condition %q", c)
	}
	return r, nil
}
