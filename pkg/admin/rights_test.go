package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/rightstest"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/guard"
)

// callersOf makes the callers of rightstest known to nodes.
type callersOf struct {
	directories map[rightstest.Mode]*access.Directory
	secrets     map[string]string // by the caller's name
}

func newCallers(t *testing.T) *callersOf {
	t.Helper()
	d := (*access.Directory)(nil)
	c := &callersOf{
		directories: map[rightstest.Mode]*access.Directory{rightstest.NoUsers: d},
		secrets:     map[string]string{rightstest.Stranger: "", rightstest.First: firstSecret},
	}
	apply := func(change access.Change) {
		t.Helper()
		var err error
		if d, err = d.Apply(change); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range rightstest.Users() {
		apply(access.Change{Verb: access.CreateUser, User: u.Name, Rules: u.Rules})
		text, token, err := access.NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		token.User, c.secrets[u.Name] = u.Name, text
		apply(access.Change{Verb: access.CreateToken, Token: &token})
	}
	c.directories[rightstest.Off] = d
	apply(access.Change{Verb: access.Enable})
	c.directories[rightstest.On] = d
	return c
}

// differs sends the request of a row as every caller, and returns who is let in or refused against the row; "" if no
// one is.
func (c *callersOf) differs(t *testing.T, row *rightstest.Row) string {
	t.Helper()
	for mode := rightstest.On; mode <= rightstest.NoUsers; mode++ {
		var h http.Handler // nil: it may have changed something
		for _, caller := range rightstest.Callers() {
			if mode == rightstest.NoUsers && caller != rightstest.Stranger && caller != rightstest.First {
				continue
			}
			if h == nil {
				h = handlerWith(t, c.directories[mode], row.Address)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, requestOf(t, row, c.secrets[caller]))
			in := w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden
			if want := row.Allows(caller, mode); in != want {
				return fmt.Sprintf("%s in mode %d: %d %s", caller, mode, w.Code, w.Body)
			}
			if in && !strings.HasPrefix(row.Pattern, "GET ") {
				h = nil
			}
		}
	}
	return ""
}

// handlerWith returns an address of a new node with the users of d.
func handlerWith(t *testing.T, d *access.Directory, at rightstest.Address) http.Handler {
	t.Helper()
	a := &fakeAccess{d: d}
	s := serverOf(t, newFake("t", "other").withChannel("t", "c"), func(o *Options) {
		o.V1.Access.Accesses, o.Metrics, o.DetailedMetrics, o.Debug = a, http.NotFoundHandler(), http.NotFoundHandler(), true
		o.Guard = guard.New(guard.Options{Directory: a.Directory, First: func(text string) bool { return text == firstSecret }})
	})
	if at == rightstest.Lookup {
		return s.LookupHandler()
	}
	return s.Handler()
}

// requestOf returns the request of a row. Those that measure for a while are cancelled.
func requestOf(t *testing.T, row *rightstest.Row, secret string) *http.Request {
	t.Helper()
	method, target, body := row.Request()
	ctx := t.Context()
	if row.Pattern == "GET /debug/pprof/profile" || row.Pattern == "GET /debug/pprof/trace" {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		ctx = cancelled
	}
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return r
}

// rowsOfRights returns the rows of rightstest.
func rowsOfRights(t *testing.T) []rightstest.Row {
	t.Helper()
	rows, err := rightstest.Rows()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestEveryRouteIsInTheListOfRights fails for a route without a row, and for a row without a route.
func TestEveryRouteIsInTheListOfRights(t *testing.T) {
	s, _, _ := guardedServer(t, newFake())
	listed := map[rightstest.Address][]string{}
	for _, row := range rowsOfRights(t) {
		listed[row.Address] = append(listed[row.Address], row.Pattern)
	}
	for i, at := range []rightstest.Address{rightstest.Node, rightstest.Lookup} {
		for _, pattern := range s.patterns[i] {
			if !slices.Contains(listed[at], pattern) {
				t.Errorf("%s of address %s is not in internal/rightstest/rights.txt: add who may use it, by the documentation", pattern, at)
			}
		}
		for _, pattern := range listed[at] {
			if !slices.Contains(s.patterns[i], pattern) {
				t.Errorf("internal/rightstest/rights.txt has %s of address %s, and there is no such route", pattern, at)
			}
		}
	}
}

// TestRightsAreThoseOfTheList asks every route as every caller.
func TestRightsAreThoseOfTheList(t *testing.T) {
	callers := newCallers(t)
	for _, row := range rowsOfRights(t) {
		if wrong := callers.differs(t, &row); wrong != "" {
			t.Errorf("%s of address %s: %s", row.Pattern, row.Address, wrong)
		}
	}
}

// TestAnyOtherRightIsNoticed gives every route each of the other rights in turn: the list must differ.
func TestAnyOtherRightIsNoticed(t *testing.T) {
	callers := newCallers(t)
	others := map[string]need{
		"openToAll": openToAll, "anyUser": anyUser, "reading": reading, "admin": admin, "changing": changing, "keeping": keeping,
		"publishing": publishing, "managing": managing, "creating": creating, "peekTopic": peekTopic, "peeking": peeking,
	}
	rows, tried := rowsOfRights(t), 0
	for at, parts := range map[rightstest.Address][]map[string]need{rightstest.Node: {rightsOfV1, rightsOfNode}, rightstest.Lookup: {rightsOfLookup}} {
		for _, part := range parts {
			for pattern, was := range part {
				for name, other := range others {
					if other == was {
						continue
					}
					part[pattern] = other
					tried++
					if !slices.ContainsFunc(rows, func(r rightstest.Row) bool {
						return r.Address == at && r.Pattern == pattern && callers.differs(t, &r) != ""
					}) {
						t.Errorf("%s of address %s with the right %s differs from the list in nothing", pattern, at, name)
					}
				}
				part[pattern] = was
			}
		}
	}
	t.Logf("%d other rights tried", tried)
}
