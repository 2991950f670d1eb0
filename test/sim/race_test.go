//go:build race

package sim

// seedCount is smaller here: with the race detector everything takes ten times as long.
const seedCount = 4
