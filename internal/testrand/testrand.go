// Package testrand provides the seeds of random tests. A failing test prints its seed;
// TEST_SEED=<seed> in the environment replays it. Continuous integration sets TEST_SEED, so
// that one commit is always tested with the same inputs; long runs leave it unset.
package testrand

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// variable is the name of the environment variable that fixes the seed.
const variable = "TEST_SEED"

// Seed returns the seed of a random test: that of the environment, or a new one.
// It logs how to run the test with it again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text, set := os.LookupEnv(variable); set {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s is not a number: %v", variable, err)
		}
	}
	t.Logf("run again with %s=%d", variable, seed)
	return seed
}

// New returns a source of random numbers that starts at Seed.
func New(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}
