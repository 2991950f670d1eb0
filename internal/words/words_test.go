package words

import "testing"

func TestNearestNameIsSuggested(t *testing.T) {
	known := []string{"orders", "clicks", "a"}
	for name, want := range map[string]string{"order": "orders", "oredrs": "orders", "klicks": "clicks", "b": "a", "billing": "", "ord": ""} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"order", "orders", 1}} {
		if got := editDistance(d.a, d.b); got != d.want || editDistance(d.b, d.a) != got {
			t.Errorf("%q to %q: %d, want %d both ways", d.a, d.b, got, d.want)
		}
	}
}

func TestNumbersAndSizes(t *testing.T) {
	for got, want := range map[string]string{
		Plural(1, "message"): "1 message", Plural(0, "message"): "0 messages", Plural(1200, "message"): "1200 messages",
		Size(1023): "1023 B", Size(1024): "1.0 KiB", Size(12<<30 + 410<<20): "12.4 GiB", Size(1<<63 - 1): "8.0 EiB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
