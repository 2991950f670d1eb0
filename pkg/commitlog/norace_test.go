//go:build !race

package commitlog

// crashVariants is how many disks a power cut leaves at each place: from one that
// has kept nothing it was not made to keep to one that has kept everything.
const crashVariants = 5
