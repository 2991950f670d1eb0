package units

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
)

func TestSizesAreRead(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "00": 0, "1048576": MiB, "64B": 64, "7b": 7,
		"1K": KiB, "1k": KiB, "1Ki": KiB, "1KiB": KiB, "1kib": KiB, "1kB": 1000, "1KB": 1000, "1kb": 1000,
		"50G": 50 * GiB, "50GiB": 50 * GiB, "50Gi": 50 * GiB, "50g": 50 * GiB, "50GB": 50e9,
		"3TiB": 3 * TiB, "2P": 2 * PiB, "7EiB": 7 * EiB, "9EB": 9e18,
		"1.5KiB": 1536, "1.5M": 3 << 19, "1.1kB": 1100, "0.29GB": 290e6, ".5K": 512, "2.K": 2048, "1.0001K": 1024,
		"2 GB": 2e9, " 50 GiB\t": 50 * GiB,
		"9223372036854775807": math.MaxInt64, "9007199254740991K": math.MaxInt64 - 1023,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestInvalidSizesAreRefused(t *testing.T) {
	for text, want := range map[string]error{
		"": errSize, " ": errSize, "x": errSize, "GiB": errSize, ".": errSize, ".K": errSize,
		"5gtp": errSize, "5kmg": errSize, "5ib": errSize, "5i": errSize, "5ii": errSize, "5bb": errSize, "5Kii": errSize,
		"1XB": errSize, "1K5": errSize, "1K5M": errSize, "1 2": errSize, "1GiB x": errSize, "5KiBB": errSize,
		"-1": errSize, "-1K": errSize, "+1": errSize, "-0": errSize, "1.5": errSize, "1.5B": errSize, "1.0": errSize,
		"1..5K": errSize, "1.5.5K": errSize, "0x10": errSize, "1e3": errSize, "1e3MB": errSize, "NaNMB": errSize, "InfMB": errSize,
		"1_000": errSize, "٣K": errSize,
		"9223372036854775808": errSizeRange, "99999999999999999999K": errSizeRange, "8EiB": errSizeRange,
		"9007199254740992K": errSizeRange, "7.9999999999999999999E": errSizeRange, "9.3EB": errSizeRange,
	} {
		if got, err := ParseSize(text); err != want { //nolint:errorlint // nothing wraps it
			t.Errorf("%q: %d, %v, want %v", text, got, err, want)
		}
	}
}

func TestSizesArePrintedInTheLargestUnit(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0", 1: "1", 1000: "1kB", 1023: "1023", KiB: "1KiB", 1536: "1536", 1024000: "1000KiB", 64 * MiB: "64MiB",
		50 * GiB: "50GiB", 50e9: "50GB", 1e12: "1TB", 4 * EiB: "4EiB", math.MaxInt64: "9223372036854775807",
		-1: "-1", -KiB: "-1024",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(size), got, want)
		}
	}
}

func TestDurationsAreRead(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "72h": 72 * time.Hour, "1h30m": 90 * time.Minute,
		"7d": 7 * day, "1w": 7 * day, "2w1d12h": 15*day + 12*time.Hour, "1.5d": 36 * time.Hour, "0.5w": 84 * time.Hour,
		"1.5h": 90 * time.Minute, ".5s": 500 * time.Millisecond, "5.s": 5 * time.Second, " 30s\n": 30 * time.Second,
		"1us": time.Microsecond, "1µs": time.Microsecond, "1μs": time.Microsecond, "1ns": 1, "1h0m0s": time.Hour,
		"1.234567891s": 1234567891, "106751d": 106751 * day, "9223372036854775807ns": math.MaxInt64,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestInvalidDurationsAreRefused(t *testing.T) {
	for text, want := range map[string]error{
		"": errDuration, " ": errDuration, "60": errDuration, "00": errDuration, "d": errDuration, ".s": errDuration,
		"soon": errDuration, "5gtp": errDuration, "1M": errDuration, "1H": errDuration, "1D": errDuration, "1y": errDuration,
		"5m30": errDuration, "1h 30m": errDuration, "1 h": errDuration, "1hm": errDuration, "1h30": errDuration,
		"-1d": errDuration, "-1s": errDuration, "-0s": errDuration, "+1s": errDuration, "1h-30m": errDuration,
		"1..5s": errDuration, "1.5.5s": errDuration, "1e3s": errDuration, "0x1s": errDuration, "NaNs": errDuration, "1.5ns": errDuration,
		"106752d": errDurationRange, "15251w": errDurationRange, "106751d23h47m16.854775808s": errDurationRange,
		"9223372036854775808ns": errDurationRange, "106751d1d": errDurationRange, "106751.995d": errDurationRange,
	} {
		if got, err := ParseDuration(text); err != want { //nolint:errorlint // nothing wraps it
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestDurationsArePrintedWithoutZeros(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 10 * time.Second: "10s", time.Minute: "1m", 90 * time.Minute: "1h30m", 30 * time.Minute: "30m",
		72 * time.Hour: "72h", time.Hour + time.Second: "1h0m1s", 1500 * time.Microsecond: "1.5ms", 10 * time.Minute: "10m",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestShortDurationsAreRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 400 * time.Microsecond: "0s", time.Millisecond: "1ms", 999 * time.Millisecond: "999ms",
		1499 * time.Millisecond: "1s", 90*time.Second + time.Millisecond: "1m30s", time.Hour + 29*time.Second: "1h",
		47*time.Hour + 31*time.Minute: "47h31m", 48 * time.Hour: "2d", 71 * time.Hour: "2d",
	} {
		if got := ShortDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestErrorsNameValidForms(t *testing.T) {
	for _, e := range []struct {
		err   error
		forms string
		parse func(string) error
	}{
		{errSize, "1048576, 512KiB, 1.5G, 50GiB, 500MB", func(s string) error { _, err := ParseSize(s); return err }},
		{errCount, "500, 10k, 2M", func(s string) error { _, err := ParseCount(s); return err }},
		{errDuration, "250ms, 30s, 1h30m, 72h, 7d, 2w", func(s string) error { _, err := ParseDuration(s); return err }},
	} {
		for form := range strings.SplitSeq(e.forms, ", ") {
			if err := e.parse(form); err != nil || !strings.Contains(e.err.Error(), form) {
				t.Errorf("%q: %v; the error is %q", form, err, e.err)
			}
		}
	}
}

func TestPrintedValuesParse(t *testing.T) {
	seed := testrand.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10_000 {
		n := random.Int64() >> random.IntN(63)
		checkReadsBack(t, n)
		checkReadsBack(t, n-n%int64(sizeUnits[random.IntN(len(sizeUnits))].bytes))
	}
}

func checkReadsBack(t *testing.T, n int64) {
	t.Helper()
	if got, err := ParseSize(Size(n).String()); err != nil || got != Size(n) {
		t.Errorf("%q does not read back: %d, %v", Size(n), got, err)
	}
	for _, print := range []func(time.Duration) string{FormatDuration, time.Duration.String} {
		text := print(time.Duration(n))
		if got, err := ParseDuration(text); err != nil || got != time.Duration(n) {
			t.Errorf("%q does not read back: %v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"50GiB", "1.5M", "7B", "9e9", ".", "-0", "5gtp", "7d", "1h30m", "1.5w", "9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseSize(text); err == nil {
			if n < 0 {
				t.Errorf("%q is %d bytes", text, int64(n))
			}
			checkReadsBack(t, int64(n))
		}
		d, err := ParseDuration(text)
		if err == nil {
			if d < 0 {
				t.Errorf("%q is %v", text, d)
			}
			checkReadsBack(t, int64(d))
		}
		// Days and weeks are accepted in addition to Go's units.
		if theirs, their := time.ParseDuration(text); their == nil && theirs > 0 && err == nil && max(d-theirs, theirs-d) > time.Duration(len(text)) {
			t.Errorf("%q is %v, Go says %v", text, d, theirs)
		}
	})
}

func TestCountsAreRead(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "500": 500, "10k": 10_000, "2M": 2_000_000, "9G": 9_000_000_000, "9223372036854775807": 9223372036854775807,
		"": -1, "k": -1, "-1": -1, "+1": -1, "1.5k": -1, "10K": -1, "1 k": -1, "9223372036854775808": -1, "9223372037G": -1,
	} {
		if got, err := ParseCount(text); err != nil && want >= 0 || err == nil && got != want {
			t.Errorf("%q: %d %v, want %d", text, got, err, want)
		}
	}
}
