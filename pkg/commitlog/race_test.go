//go:build race

package commitlog

// crashVariants is smaller where everything takes ten times as long.
const crashVariants = 3
