package topic

import (
	"cmp"
	"testing"
)

// TestSampleRateIsAPercentage: of a hundred draws, exactly that number
// deliver.
func TestSampleRateIsAPercentage(t *testing.T) {
	for rate := range 100 {
		delivered := 0
		for drawn := range 100 {
			if sampled(rate, drawn) {
				delivered++
			}
		}
		if want := cmp.Or(rate, 100); delivered != want {
			t.Errorf("rate %d delivers %d of 100", rate, delivered)
		}
	}
}

// A consumer that found nothing waits until it is woken. From then on its Take may read the log, so that it does not
// count as waiting, though it has not looked yet.
func TestWokenConsumerDoesNotWait(t *testing.T) {
	b := newBench(t)
	k := b.join(b.channel("c", 1))
	if k.Consumer.Waits() {
		t.Error("a consumer waits before its first Take")
	}
	want(t, "nothing", k.take(1, b.now), "")
	if !k.Consumer.Waits() {
		t.Error("a consumer that found nothing does not wait")
	}
	b.publish("a")
	if k.Consumer.Waits() {
		t.Error("a consumer waits though it was woken")
	}
	want(t, "what woke it", k.take(1, b.now), "a")
	if k.Consumer.Waits() {
		t.Error("a consumer that takes waits")
	}
}
