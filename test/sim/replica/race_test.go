//go:build race

package replica

// seedCount is smaller here: with the race detector everything takes ten times as long.
const seedCount = 10

const raceEnabled = true
