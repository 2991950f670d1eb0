package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func TestNumbersAreFormatted(t *testing.T) {
	day := 24 * time.Hour
	for got, want := range map[string]string{
		count(0):                       "0",
		count(999):                     "999",
		count(48_112):                  "48,112",
		count(-1_234_567):              "-1,234,567",
		words.Size(1023):               "1023 B",
		words.Size(1536):               "1.5 KiB",
		words.Size(13_314_398_617):     "12.4 GiB",
		words.Size(1 << 62):            "4.0 EiB",
		age(0):                         "-",
		age(api.Duration(1234567)):     "1ms",
		age(api.Duration(42 * 1e9)):    "42s",
		age(api.Duration(2 * day)):     "48h",
		latency(1_234_567):             "1.2ms",
		latency(31_400_000):            "31ms",
		latency(123_456):               "120µs",
		latency(99):                    "99ns",
		metric(950):                    "950",
		metric(20_000):                 "20.0k",
		metric(1_250_000):              "1.25M",
		list(nil):                      "-",
		plural(1, "message"):           "1 message",
		plural(0, "message"):           "0 messages",
		bodyText([]byte("plain é"), 0): "plain é",
		bodyText([]byte("a\tb"), 0):    `"a\tb"`,
		bodyText([]byte("\x1b[2J"), 0): `"\x1b[2J"`, // a message must not ring the terminal's bell
		bodyText([]byte("abcdef"), 4):  "abc…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPositionsAreParsed(t *testing.T) {
	now := clock().In(time.FixedZone("", 3600))
	at := func(t time.Time) api.Seek { return api.Seek{Time: &t} }
	for text, want := range map[string]api.Seek{
		"start":                     {To: api.SeekStart},
		"end":                       {To: api.SeekEnd},
		"0":                         {Offset: new(uint64(0))},
		"4881203":                   {Offset: new(uint64(4881203))},
		"-90m":                      at(clock().Add(-90 * time.Minute)),
		"-2d":                       at(clock().Add(-48 * time.Hour)),
		"2026-11-21T06:00:00Z":      at(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)),
		"2026-11-21T06:00:00.5Z":    at(time.Date(2026, 11, 21, 6, 0, 0, 5e8, time.UTC)),
		"2026-11-21T06:00:00+02:00": at(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)),
		"2026-11-21 06:00:00":       at(time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)),
		"9999-12-31T23:59:59Z":      at(time.Unix(0, math.MaxInt64)),
		"2262-04-11T23:47:17Z":      at(time.Unix(0, math.MaxInt64)),
		"1600-01-01":                at(time.Unix(0, math.MinInt64)),
		"0001-01-01T00:00:00Z":      at(time.Unix(0, math.MinInt64)),
		"2026-11-21":                at(time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)),
	} {
		got, err := parseSeek("--to", text, now)
		if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "begin", "2h", "2d", "-1", "--2h", "-5gtp", "yesterday", "2026-13-01"} {
		if got, err := parseSeek("--to", text, now); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestPartitionsAreFiltered(t *testing.T) {
	broker := newFakeBroker(t)
	for flag, want := range map[string][]string{
		"":                   {"clicks#ephemeral/0", "orders/0", "orders/1"},
		"--offline":          {"clicks#ephemeral/0"},
		"--under-replicated": {"clicks#ephemeral/0", "orders/0"},
		"--leader=n2":        {"orders/1"},
	} {
		args := []string{"partition", "list", "-o", "name"}
		if flag != "" {
			args = append(args, flag)
		}
		if r := broker.brokerctl(t, args...); !slices.Equal(strings.Fields(r.stdout), want) {
			t.Errorf("%s: %q, want %q", flag, r.stdout, want)
		}
	}
}

func TestAckMeansMatchesPolicy(t *testing.T) {
	interval := api.Duration(200 * time.Millisecond)
	for _, tc := range []struct {
		c    api.Config
		want string
	}{
		{api.Config{Replicas: 1, MinISR: 1, Sync: api.SyncAlways}, "1 replica, on disk"},
		{api.Config{Replicas: 3, MinISR: 2, Sync: api.SyncAlways, SyncInterval: interval}, "2+ replicas, on disk"},
		{api.Config{Replicas: 3, MinISR: 1, Sync: api.SyncInterval, SyncInterval: interval}, "1+ replicas, on disk in 200ms"},
		{api.Config{Replicas: 2, MinISR: 2, Sync: 500, SyncInterval: interval}, "2 replicas, on disk in 200ms or 500 messages"},
		{api.Config{Replicas: 1, MinISR: 1, Sync: 500}, "1 replica, on disk in 500 messages"},
	} {
		if got := ackMeans(tc.c, false); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.c, got, tc.want)
		}
	}
	if got := ackMeans(api.Config{Replicas: 1, MinISR: 1, Sync: api.SyncAlways}, true); got != "1 replica, in memory" {
		t.Errorf("of an ephemeral topic: %q", got)
	}
}

func TestFlagsTakeSizesAndDurations(t *testing.T) {
	var o configOptions
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(f)
	if err := f.Parse([]string{"--retention", "7d", "--retention-bytes", "50G", "--max-message-bytes", "64KiB", "--sync-interval", "0.5s"}); err != nil {
		t.Fatal(err)
	}
	got, err := o.patch(f)
	want := api.ConfigPatch{
		Retention: new(api.Duration(168 * time.Hour)), RetentionBytes: new(int64(50 << 30)),
		MaxMessageBytes: new(64 << 10), SyncInterval: new(api.Duration(500 * time.Millisecond)),
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for flag, text := range map[string]string{"retention": "-1h", "sync-interval": "60", "retention-bytes": "5ib", "max-message-bytes": "-1"} {
		if err := f.Set(flag, text); err == nil || !strings.Contains(err.Error(), "; examples: ") {
			t.Errorf("--%s %s: %v", flag, text, err)
		}
	}
	if strings.Contains(f.FlagUsages(), "(default ") {
		t.Errorf("zeros are shown as defaults:\n%s", f.FlagUsages())
	}
}
