package peer

import (
	"hash/fnv"
	"time"
)

// backoff returns how long to wait before an attempt, whose number begins at 1. The time doubles
// from least to most and is spread over its upper half. The same seed gives the same times.
func backoff(least, most time.Duration, attempt int, seed uint64) time.Duration {
	d := most
	if shift := attempt - 1; shift < 32 && least<<shift>>shift == least {
		d = min(most, least<<shift)
	}
	half := d / 2
	if half <= 0 {
		return d
	}
	return d - time.Duration(mix(mix(seed)+uint64(attempt))%uint64(half))
}

// mix scatters the bits of a number. Different numbers give different results.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// seedOf returns a number that depends on texts.
func seedOf(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
