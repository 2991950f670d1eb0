//go:build !race

package replica

// seedCount is how many seeds a run plays by default.
const seedCount = 20

const raceEnabled = false
