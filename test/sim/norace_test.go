//go:build !race

package sim

// seedCount is how many seeds are run where nobody says how many.
const seedCount = 20
