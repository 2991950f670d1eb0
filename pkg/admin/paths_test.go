package admin

import (
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Software that cleans paths takes a path with a dot segment for another resource. /v1 refuses such
// paths and redirects nothing: a DELETE redirected to the cleaned path would delete the wrong
// object.
func TestV1NeitherCleansNorRedirectsPaths(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PATCH", "DELETE"} {
		for _, target := range []string{
			"/v1/topics/orders/channels/..", "/v1/topics/orders/channels/.", "/v1/topics/orders/channels/%2e%2e", "/v1/topics/orders/channels/%2E.",
			"/v1/topics/orders/channels/.%2e", "/v1/topics/orders/channels/%2e", "/v1/topics/orders/channels/../", "/v1/topics/orders/channels/../pause",
			"/v1/topics/..", "/v1/topics/.", "/v1/topics/x/../orders", "/v1/../v1/topics/orders", "/v1/./topics/orders", "/v1/..", "/v1/%2e%2e",
			"/v1//topics/orders", "/v1/topics//orders", "/v1/topics/orders//channels/bill", "/v1//",
		} {
			f := orders()
			w := ask(serverOf(t, f).Handler(), method, target, "")
			if w.Code != 400 || !strings.Contains(w.Body.String(), `"code":"invalid"`) || w.Header().Get("Location") != "" {
				t.Errorf("%s %s: got %d %s, Location %q; want 400 without a redirect", method, target, w.Code, w.Body, w.Header().Get("Location"))
			}
			if len(f.calls) > 0 {
				t.Errorf("%s %s: did %q", method, target, f.calls)
			}
		}
	}
	for _, target := range []string{"/v1/topics/", "/v1/topics/orders/", "/v1/"} { // nothing is served or redirected there
		if w := ask(serverOf(t, orders()).Handler(), "DELETE", target, ""); w.Code != 404 || w.Header().Get("Location") != "" {
			t.Errorf("DELETE %s: got %d, Location %q", target, w.Code, w.Header().Get("Location"))
		}
	}
}

// A path of any segments is never redirected. A change is refused if cleaning its path would name
// another resource.
func TestV1RandomPathsAreNotRedirected(t *testing.T) {
	random := testrand.New(t)
	segments := []string{"v1", "topics", "orders", "channels", "bill", "partitions", "0", "move", "nodes", ".", "..", "%2e", "%2E%2e", ".%2e", "", "%2F", "%2e%2f", "..."}
	for range 1000 {
		target := "/v1"
		for range 1 + random.IntN(6) {
			target += "/" + segments[random.IntN(len(segments))]
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			f := orders()
			w := ask(serverOf(t, f).Handler(), method, target, "{}")
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			changed := len(f.calls) > 0 && path.Clean(u.Path) != u.Path
			if w.Code/100 == 3 || w.Header().Get("Location") != "" || changed {
				t.Fatalf("%s %s: %d, Location %q, did %q", method, target, w.Code, w.Header().Get("Location"), f.calls)
			}
		}
	}
}

// Earlier versions may have created topics and channels whose names are dot segments. They can be
// deleted, by the client and by hand, but not created again.
func TestDotNamesCanOnlyBeDeleted(t *testing.T) {
	for _, name := range []string{".", ".."} {
		f := newFake("t", name).withChannel("t", name).withChannel(name, name)
		srv := httptest.NewServer(serverOf(t, f).Handler())
		defer srv.Close()
		c, err := api.NewClient(api.ClientOptions{Addresses: []string{srv.URL}, HTTP: srv.Client()})
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			what string
			do   func() error
			code failure.Code
			call string
		}{
			{"delete channel " + name + " of t", func() error { _, err := c.DeleteChannel(t.Context(), "t", name); return err }, "", "delete t/" + name},
			{"delete it again", func() error { _, err := c.DeleteChannel(t.Context(), "t", name); return err }, failure.NotFound, ""},
			{"delete channel " + name + " of " + name, func() error { _, err := c.DeleteChannel(t.Context(), name, name); return err }, "", "delete " + name + "/" + name},
			{"describe it", func() error { _, err := c.Topic(t.Context(), name); return err }, failure.Invalid, ""},
			{"pause it", func() error { return c.PauseTopic(t.Context(), name, true) }, failure.Invalid, ""},
			{"delete it", func() error { return c.DeleteTopic(t.Context(), name) }, "", "delete " + name},
			{"create it", func() error { _, err := c.CreateTopic(t.Context(), api.CreateTopic{Name: name}); return err }, failure.Invalid, ""},
			{"create its channel", func() error {
				_, err := c.CreateChannel(t.Context(), "t", api.CreateChannel{Name: name})
				return err
			}, failure.Invalid, ""},
		} {
			f.calls = nil
			if err := test.do(); api.CodeOf(err) != test.code {
				t.Errorf("%s: got %v, want code %q", test.what, err, test.code)
			}
			var want []string
			if test.call != "" {
				want = []string{test.call}
			}
			if !slices.Equal(f.calls, want) {
				t.Errorf("%s: did %q, want %q", test.what, f.calls, want)
			}
		}
		for _, target := range []string{"/pub?topic=", "/mpub?topic=", "/topic/create?topic=", "/channel/create?topic=t&channel="} {
			f.calls = nil
			if w := ask(srv.Config.Handler, "POST", target+name, "x"); w.Code != 400 || len(f.calls) > 0 {
				t.Errorf("POST %s%s: got %d %s, did %q; want 400", target, name, w.Code, w.Body, f.calls)
			}
		}
		f.withChannel("t", name)
		f.create(name, f.topics["t"].Config)
		for _, target := range []string{"/channel/delete?topic=t&channel=", "/topic/delete?topic="} {
			if w := ask(srv.Config.Handler, "POST", target+name, ""); w.Code != 200 {
				t.Errorf("POST %s%s: got %d %s", target, name, w.Code, w.Body)
			}
		}
	}
}
