//go:build !race

package commitlog

// crashVariants is the number of disks tried for a power cut at each place: from
// one that kept only synced data to one that kept everything.
const crashVariants = 5
