//go:build race

package replica

// seedCount is smaller where everything takes ten times as long.
const seedCount = 10

const raceEnabled = true
