package node

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/config"
)

func TestBudgetOfLargeMachineIsBounded(t *testing.T) {
	const gib = 1 << 30
	for _, tc := range []struct{ wanted, process, body, want int64 }{
		{gib, gib, 1, gib / 100 * 60},
		{32 * gib, 32 * gib, 1, 32 * gib / 100 * 60},
		{math.MaxInt64, 64 * gib, 1, mostBudget}, // no GOMEMLIMIT
		{64 * gib, 32 * gib, 1, mostBudget},      // a container that is smaller
		{math.MaxInt64, gib / 2, 1, gib / 2 / 100 * 60},
		{math.MaxInt64, gib / 16, 1, leastBudget},
		{math.MaxInt64, 64 * gib, 128 << 20, gib}, // for the largest bodies
	} {
		if got := defaultBudget(tc.wanted, tc.process, tc.body); got != tc.want {
			t.Errorf("%d of %d: %d, want %d", tc.wanted, tc.process, got, tc.want)
		}
	}
	for _, tc := range []struct {
		limits config.Limits
		want   int
	}{
		{config.Limits{MaxPartitions: 7}, 7},
		{config.Limits{MemoryBudget: 1 << 20}, leastPartitions},
		{config.Limits{MemoryBudget: 384 << 20}, 12288},
	} {
		if got := maxPartitions(&tc.limits); got != tc.want {
			t.Errorf("%+v: %d, want %d", tc.limits, got, tc.want)
		}
	}
}

func TestBudgetFollowsMemory(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name string
		got  int64
		want int64
	}{
		{"a control group", memoryOfGroup(file("1073741824\n")), 1 << 30},
		{"a control group without a limit", memoryOfGroup(file("max\n")), math.MaxInt64},
		{"no control group", memoryOfGroup("/nowhere"), math.MaxInt64},
		{"a machine", memoryOfMachine(file("MemTotal:       2097152 kB\nMemFree: 1 kB\n")), 2 << 30},
		{"a machine that does not say", memoryOfMachine(file("MemFree: 1 kB\n")), math.MaxInt64},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, tc.got, tc.want)
		}
	}
	if n := budgetBytes(&config.Limits{MemoryBudget: 123}); n != 123 {
		t.Errorf("the budget set to 123 is %d", n)
	}
	if n, memory := budgetBytes(&config.Limits{}), memoryOfProcess(); n < leastBudget || n > max(memory/10*6+1, leastBudget) {
		t.Errorf("the budget is %d of %d", n, memory)
	}
	if n := budgetBytes(&config.Limits{MaxBodySize: 1 << 40}); n < 8<<40 {
		t.Errorf("the budget is %d and has no room for the largest bodies", n)
	}
	if n := uncommittedBytes(&config.Limits{MaxUncommitted: 123}); n != 123 {
		t.Errorf("set to 123 it is %d", n)
	}
	if n := uncommittedBytes(&config.Limits{}); n < leastUncommitted || n > mostUncommitted {
		t.Errorf("it is %d on this machine", n)
	}
}

func TestControlGroupsOfTheProcessAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cgroup")
	text := "5:memory:/a/b\n4:cpu,cpuacct:/c\nnonsense\n0::/system.slice/brokerd.service\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
		"/sys/fs/cgroup/system.slice/brokerd.service/memory.max", "/sys/fs/cgroup/system.slice/memory.max",
	}
	if got := groupFiles(path); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := groupFiles("/nowhere"); !slices.Equal(got, want[:2]) {
		t.Errorf("without a group: %q", got)
	}
}
