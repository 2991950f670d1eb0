package limit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// client returns the context of a client at an address.
func client(t *testing.T, c *Creations, ip string) context.Context {
	t.Helper()
	address, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(ip, "1"))
	if err != nil {
		t.Fatal(err)
	}
	return c.By(t.Context(), address)
}

// create creates names until it is refused, at most n times, and returns how many succeeded.
func create(ctx context.Context, most int) int {
	for i := range most {
		if _, err := Create(ctx, 1); err != nil {
			return i
		}
	}
	return most
}

func TestAddressCreatesABurstThenAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCreations(10, time.Second/4, slog.New(slog.DiscardHandler))
		a, b, third := client(t, c, "192.0.2.1"), client(t, c, "192.0.2.2"), client(t, c, "192.0.2.3")
		for _, step := range []struct {
			name string
			wait time.Duration
			who  context.Context
			want int
		}{
			{"the burst", 0, a, 10},
			{"nothing more", 249 * time.Millisecond, a, 0},
			{"one came back", time.Millisecond, a, 1},
			{"a second", time.Second, a, 4},
			{"the burst comes back, not more", time.Hour, a, 10},
			{"another address has its own", 0, b, 10},
			{"all together have twice as many", 0, third, 0},
			{"all together have twice the rate", time.Second, third, 8},
			{"which others have used up", 0, b, 0},
		} {
			time.Sleep(step.wait)
			if got := create(step.who, 100); got != step.want {
				t.Errorf("%s: %d are created, want %d", step.name, got, step.want)
			}
		}
	})
}

func TestAddressGroups(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::2", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"127.0.0.1", "127.9.9.9", true},
		{"127.0.0.1", "::1", true},
	} {
		t.Run(tt.a+" and "+tt.b, func(t *testing.T) {
			c := NewCreations(1, time.Hour, slog.New(slog.DiscardHandler))
			create(client(t, c, tt.a), 1)
			if refused := create(client(t, c, tt.b), 1) == 0; refused != tt.same {
				t.Errorf("refused: %t", refused)
			}
		})
	}
}

func TestUnboundedClients(t *testing.T) {
	c := NewCreations(1, time.Hour, slog.New(slog.DiscardHandler))
	for name, ctx := range map[string]context.Context{
		"a node":           t.Context(),
		"no limit":         client(t, NewCreations(0, time.Hour, nil), "192.0.2.1"),
		"a unix socket":    c.By(t.Context(), &net.UnixAddr{Name: "@", Net: "unix"}),
		"not asked for it": Uncounted(client(t, c, "192.0.2.1")),
	} {
		if got := create(ctx, 50); got != 50 {
			t.Errorf("%s: %d are created", name, got)
		}
	}
	if got := (*Creations)(nil).Refused(); got != 0 {
		t.Errorf("%d refusals without a limit", got)
	}
}

func TestUncreatedNamesDoNotCount(t *testing.T) {
	c := NewCreations(2, time.Hour, slog.New(slog.DiscardHandler))
	ctx := client(t, c, "192.0.2.1")
	for range 50 {
		undo, err := Create(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		undo()
	}
	if got := create(ctx, 3); got != 2 {
		t.Errorf("%d are created, want 2", got)
	}
	if got := create(client(t, c, "192.0.2.2"), 3); got != 2 {
		t.Errorf("%d are created by another, want 2", got)
	}
}

// TestMayCreateCountsNothing: a dry run is refused like what it tries out, as often as it is repeated, and uses nothing up.
func TestMayCreateCountsNothing(t *testing.T) {
	c := NewCreations(3, time.Hour, slog.New(slog.DiscardHandler))
	ctx := client(t, c, "192.0.2.1")
	for range 50 {
		if err := errors.Join(MayCreate(ctx), MayCreate(ctx, 1, 1, 1), MayCreate(ctx, 2, 1)); err != nil {
			t.Fatal(err)
		}
		if err := MayCreate(ctx, 1, 2, 1); !errors.Is(err, failure.TooManyCreated) {
			t.Fatalf("more than the burst: %v", err)
		}
	}
	if got := create(ctx, 4); got != 3 || c.Refused() != 1 {
		t.Errorf("%d are created, %d refused", got, c.Refused())
	}
	if err := MayCreate(ctx, 1); !errors.Is(err, failure.TooManyCreated) || MayCreate(ctx) != nil || MayCreate(t.Context(), 9) != nil {
		t.Errorf("after the burst: %v", err)
	}
}

// TestPartitionsAreCreations: a topic of many partitions counts as many, also beyond the burst.
func TestPartitionsAreCreations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCreations(10, time.Second, slog.New(slog.DiscardHandler))
		ctx := client(t, c, "192.0.2.1")
		undo, err := Create(ctx, 8)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Create(ctx, 3); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("3 beside 8 of 10: %v", err)
		}
		undo()
		if _, err := Create(ctx, 1024); err != nil {
			t.Errorf("more than the burst, which is whole: %v", err)
		}
		for _, wait := range []time.Duration{0, 1014 * time.Second} {
			time.Sleep(wait)
			if _, err := Create(ctx, 1); !errors.Is(err, failure.TooManyCreated) || MayCreate(ctx, 1) == nil {
				t.Errorf("after %v: %v", wait, err)
			}
		}
		time.Sleep(time.Second)
		if _, err := Create(ctx, 1); err != nil {
			t.Errorf("once what was beyond the burst is regained: %v", err)
		}
		if _, err := Create(ctx, 1024); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("more than the burst, which is used up: %v", err)
		}
	})
}

func TestRefusedCreationsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		c := NewCreations(1, time.Hour, slog.New(slog.NewTextHandler(&said, nil)))
		ctx := client(t, c, "192.0.2.1")
		create(ctx, 1)
		for range 100 {
			if _, err := Create(ctx, 1); !errors.Is(err, failure.TooManyCreated) || fate.Of(err) != fate.Refused {
				t.Fatal(err)
			}
		}
		if got := strings.Count(said.String(), "\n"); got != 1 || c.Refused() != 100 {
			t.Errorf("%d refusals are told of in %d lines:\n%s", c.Refused(), got, said.String())
		}
		time.Sleep(creationsTell)
		create(ctx, 1)
		if !strings.Contains(said.String(), "refused=100") {
			t.Errorf("what was not told of is not counted:\n%s", said.String())
		}
	})
}

func TestAddressesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCreations(1000, time.Millisecond, slog.New(slog.DiscardHandler))
		for i := range 20_000 {
			create(client(t, c, fmt.Sprintf("10.0.%d.%d", i/250, i%250)), 1)
			time.Sleep(time.Millisecond)
		}
		if len(c.of) > 2*fewestForSweep {
			t.Errorf("%d addresses are known", len(c.of))
		}
	})
}
