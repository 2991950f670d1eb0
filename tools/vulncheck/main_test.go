package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a file below a directory.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// database returns a database with a vulnerability of strings.ToUpper in all releases of Go.
func database(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "index/db.json", `{"modified":"2026-01-01T00:00:00Z"}`)
	write(t, dir, "index/modules.json", `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`)
	write(t, dir, "index/vulns.json", `[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]`)
	write(t, dir, "ID/GO-2026-0001.json", `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
"summary":"Loud letters","details":"x","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
"ecosystem_specific":{"imports":[{"path":"strings","symbols":["ToUpper"]}]}}]}`)
	return "file://" + dir
}

// program returns a module with a program.
func program(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/program\n\ngo 1.26\n")
	write(t, dir, "main.go", "package main\n\nimport \"strings\"\n\nfunc main() { "+body+" }\n")
	return dir
}

func TestAVulnerabilityThatIsCalledFails(t *testing.T) {
	db := database(t)
	var out bytes.Buffer
	err := run(t.Context(), program(t, `println(strings.ToUpper("a"))`), db, []string{"./..."}, &out)
	if !errors.Is(err, errReachable) || !strings.Contains(out.String(), "REACHED") || !strings.Contains(out.String(), "Loud letters") {
		t.Errorf("%v, printed:\n%s", err, &out)
	}
	out.Reset()
	if err := run(t.Context(), program(t, `println(strings.ToLower("a"))`), db, []string{"./..."}, &out); err != nil || !strings.Contains(out.String(), "not reached") {
		t.Errorf("one that is not called: %v, printed:\n%s", err, &out)
	}
}

func TestADatabaseThatCannotBeAskedIsAWarning(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer broken.Close()
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/index/db.json" {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte(`{"modified":"2026-01-01T00:00:00Z"}`))
	}))
	defer half.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, db := range map[string]string{"broken": broken.URL, "ends meanwhile": half.URL, "gone": gone.URL} {
		var out bytes.Buffer
		if err := run(t.Context(), program(t, `println(strings.ToUpper("a"))`), db, []string{"./..."}, &out); err != nil || !strings.HasPrefix(out.String(), "WARNING") {
			t.Errorf("%s: %v, printed:\n%s", name, err, &out)
		}
	}
}

func TestSourcesThatDoNotBuildFail(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), program(t, `absent()`), database(t), []string{"./..."}, &out); err == nil || errors.Is(err, errReachable) {
		t.Errorf("%v, printed:\n%s", err, &out)
	}
}
