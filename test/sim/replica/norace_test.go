//go:build !race

package replica

// seedCount is how many seeds are run where nobody says how many.
const seedCount = 20

const raceEnabled = false
