package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestEveryJobOfPynsqIsExpected(t *testing.T) {
	n := bytes.Count(pynsqProgram, []byte("\n@job(")) + bytes.Count(pynsqProgram, []byte("\n@job(\"auth\")"))
	if n != pynsqJobs {
		t.Errorf("jobs.py has %d jobs, those with AUTH counted twice, and %d are expected", n, pynsqJobs)
	}
}

func TestAuthServerKnowsOneSecret(t *testing.T) {
	for query, want := range map[string]int{"?secret=sesame": http.StatusOK, "?secret=barley": http.StatusForbidden, "": http.StatusForbidden} {
		w := httptest.NewRecorder()
		authorize(w, httptest.NewRequest(http.MethodGet, "/auth"+query, nil))
		if w.Code != want {
			t.Errorf("%q is answered with %d", query, w.Code)
		}
	}
}
