//go:build !race

package sim

// seedCount is how many seeds a run plays by default.
const seedCount = 20
