package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFrontAnswersBeforeTheNodeIsOpen(t *testing.T) {
	var f Front
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]int{
		"/ping": 200, "/livez": 200, "/readyz": 503, "/startupz": 503, "/v1/topics": 503, "/pub?topic=t": 503,
	} {
		code, body := get(path)
		if code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
		if code == 503 && !strings.Contains(body, `"starting"`) {
			t.Errorf("%s does not say that the node is starting: %s", path, body)
		}
	}
	f.Open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	if code, _ := get("/readyz"); code != http.StatusTeapot {
		t.Errorf("an open front answers %d by itself", code)
	}
}
