package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/test/steps"
)

func TestPackagesAreFetchedOncePerPins(t *testing.T) {
	e := env{ctx: t.Context(), cache: filepath.Join(t.TempDir(), "cache")}
	broken := errors.New("broken")
	got := 0
	install := func(pin string, failure error) error {
		p := packages{
			pins: map[string]string{"lock": pin},
			need: needPrograms("a shell", "sh"),
			get: func(e env) {
				got++
				if text, err := os.ReadFile(filepath.Join(e.cache, "lock")); err != nil || string(text) != pin {
					t.Errorf("%q, %v", text, err)
				}
				steps.Must(failure)
			},
		}
		return steps.Run(func() { p.install(e) })
	}
	for _, c := range []struct {
		pin     string
		failure error
		want    int // calls of get until then
	}{
		{"a", broken, 1}, // it may exist partly
		{"a", nil, 2},
		{"a", nil, 2},
		{"b", nil, 3},
		{"a", nil, 4}, // one set at a time is kept
	} {
		if err := install(c.pin, c.failure); !errors.Is(err, c.failure) || got != c.want {
			t.Errorf("%s: %v, got %d times, want %d", c.pin, err, got, c.want)
		}
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	need := needPrograms("a missing program", "no-such-program")
	if err := steps.Run(func() { need(env{}) }); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}
