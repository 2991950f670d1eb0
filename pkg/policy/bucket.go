package policy

import "time"

// burstPart is the fraction of a second's messages that may be taken at once after a
// rest. It is more than a bucket gains between two checks of a waiting consumer.
const burstPart = 10

// bucket limits a rate: it fills with time, and each message taken out of it may be
// delivered. The zero value has no limit. Time must not run backwards.
type bucket struct {
	perSecond float64 // 0: no limit
	tokens    float64
	at        time.Time // when tokens was right
}

// SetRate changes the rate, in messages a second; 0: no limit. The content of the bucket
// stays, up to its new size.
func (b *bucket) SetRate(perSecond float64, now time.Time) {
	if perSecond == b.perSecond {
		return
	}
	b.fill(now)
	if b.perSecond == 0 {
		b.tokens = b.room(perSecond) // it begins full
	}
	b.perSecond, b.at = perSecond, now
	b.tokens = min(b.tokens, b.room(perSecond))
}

// Reserve takes up to n messages out and returns how many.
func (b *bucket) Reserve(n int, now time.Time) int {
	if b.perSecond == 0 {
		return n
	}
	b.fill(now)
	n = max(0, min(n, int(b.tokens)))
	b.tokens -= float64(n)
	return n
}

// Return returns messages that were taken and not used.
func (b *bucket) Return(n int) {
	if b.perSecond > 0 {
		b.tokens = min(b.tokens+float64(n), b.room(b.perSecond))
	}
}

func (b *bucket) fill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 && b.perSecond > 0 {
		b.tokens = min(b.tokens+passed.Seconds()*b.perSecond, b.room(b.perSecond))
		b.at = now
	}
}

// untilOne returns the time until one message can be taken.
func (b *bucket) untilOne() time.Duration {
	if b.perSecond == 0 || b.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - b.tokens) / b.perSecond * float64(time.Second))
}

func (b *bucket) room(perSecond float64) float64 { return max(1, perSecond/burstPart) }
