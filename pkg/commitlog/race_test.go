//go:build race

package commitlog

// crashVariants is smaller here, because everything takes ten times as long.
const crashVariants = 3
