package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func teapot(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func TestFrontAnswersBeforeTheNodeIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		get := func(path string) (code int, body string, took time.Duration) {
			began := time.Now()
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Code, w.Body.String(), time.Since(began)
		}
		for _, test := range []struct {
			path string
			want int
			wait time.Duration
		}{
			{"/livez", 200, 0},
			{"/readyz", 503, 0},
			{"/startupz", 503, 0},
			{"/ping", 200, startPatience},
			{"/v1/topics", 503, startPatience},
			{"/pub?topic=t", 503, startPatience},
		} {
			code, body, took := get(test.path)
			if code != test.want || took != test.wait {
				t.Errorf("%s: %d %s after %v, want %d after %v", test.path, code, body, took, test.want, test.wait)
			}
			if code == 503 && !strings.Contains(body, `"starting"`) {
				t.Errorf("%s does not say that the node is starting: %s", test.path, body)
			}
		}
		f.Open(http.HandlerFunc(teapot))
		if code, _, _ := get("/readyz"); code != http.StatusTeapot {
			t.Errorf("an open front answers %d by itself", code)
		}
	})
}

// TestWhoPingsWhileANodeStartsIsAnsweredByTheNode: clients ping until there is an
// answer, and publish.
func TestWhoPingsWhileANodeStartsIsAnsweredByTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		began := time.Now()
		time.AfterFunc(startPatience/2, func() { f.Open(http.HandlerFunc(teapot)) })
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ping", nil))
		if took := time.Since(began); w.Code != http.StatusTeapot || took != startPatience/2 {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

func TestARequestThatIsGivenUpDoesNotWaitForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/ping", nil))
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v", took)
		}
	})
}
