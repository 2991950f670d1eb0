//go:build race

package sim

// seedCount is smaller where everything takes ten times as long.
const seedCount = 4
