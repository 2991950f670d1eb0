package node

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Bounds of the memory for uncommitted messages, if no setting gives it.
const (
	uncommittedPart  = 8 // of the memory
	leastUncommitted = 64 << 20
	mostUncommitted  = 1 << 30
)

// Bounds of the budget for clients' memory, if no setting gives it.
const (
	budgetPercent = 60 // of the memory
	leastBudget   = 64 << 20
	leastBodies   = 8 // of the largest body that a client may send
	// mostBudget is the largest budget without GOMEMLIMIT. What clients hold is garbage afterwards,
	// and the collector lets the heap grow to twice what was in use: with what the node needs itself the process stays
	// under 1 GiB, whatever clients without rights do. It holds 76 of the largest bodies, or 12,000 partitions and
	// 8,000 connections at once. GOMEMLIMIT says what is meant for the broker; a large machine or container does not.
	mostBudget = 384 << 20
)

// leastPartitions is the least default of max-partitions: as many as a topic can have.
const leastPartitions = seq.MaxPartitions

// maxPartitions returns how many partitions new ones are placed up to.
func maxPartitions(l *config.Limits) int {
	return cmp.Or(l.MaxPartitions, max(limit.MostPartitions(budgetBytes(l)), leastPartitions))
}

// softPercent is the part of the memory above which the runtime collects more often, unless
// GOMEMLIMIT is set.
const softPercent = 90

// uncommittedBytes returns how many bytes the partitions of the node may hold
// uncommitted.
func uncommittedBytes(l *config.Limits) int64 {
	if l.MaxUncommitted > 0 {
		return int64(l.MaxUncommitted)
	}
	return min(max(memoryOfProcess()/uncommittedPart, leastUncommitted), mostUncommitted)
}

// framePart is how much of the memory large frames of other nodes may take while they
// are read.
const framePart = 16

// frameBytes returns how many bytes that is.
func frameBytes() int {
	return int(min(max(memoryOfProcess()/framePart, leastUncommitted), mostUncommitted))
}

// budgetBytes returns how many bytes clients may make the node hold.
func budgetBytes(l *config.Limits) int64 {
	if l.MemoryBudget > 0 {
		return int64(l.MemoryBudget)
	}
	return defaultBudget(debug.SetMemoryLimit(-1), memoryOfProcess(), int64(l.MaxBodySize))
}

// defaultBudget returns the budget for GOMEMLIMIT, for the least that anything allows the process, and for the largest
// body.
func defaultBudget(wanted, process, body int64) int64 {
	budget := process / 100 * budgetPercent
	if wanted > process { // GOMEMLIMIT does not say what is meant for the process
		budget = min(budget, mostBudget)
	}
	return max(budget, leastBudget, leastBodies*body)
}

// LimitHeap makes the runtime collect more often near the memory limit, unless GOMEMLIMIT is set:
// for a process that runs one node and nothing else.
func LimitHeap() {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	if memory := memoryOfProcess(); memory != math.MaxInt64 {
		debug.SetMemoryLimit(memory / 100 * softPercent)
	}
}

// memoryOfProcess returns the least that anything allows the process: GOMEMLIMIT, its
// control groups, or the machine.
func memoryOfProcess() int64 {
	least := min(debug.SetMemoryLimit(-1), memoryOfMachine("/proc/meminfo"))
	for _, path := range groupFiles("/proc/self/cgroup") {
		least = min(least, memoryOfGroup(path))
	}
	return least
}

// groupFiles returns the files with the memory limits of the control groups that a file
// like /proc/self/cgroup names, and of those around them.
func groupFiles(path string) []string {
	const v1, v2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
	files := []string{v2 + "/memory.max", v1 + "/memory.limit_in_bytes"}
	text, err := os.ReadFile(path)
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:group
		if len(parts) != 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		for group := parts[2]; len(group) > 1; group = group[:strings.LastIndexByte(group, '/')] {
			if parts[1] == "" {
				files = append(files, v2+group+"/memory.max")
			} else {
				files = append(files, v1+group+"/memory.limit_in_bytes")
			}
		}
	}
	return files
}

// memoryOfGroup returns the limit that a file of the control group names; without
// one, the largest number.
func memoryOfGroup(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64 // "max"
	}
	return n
}

// memoryOfMachine returns what a file like /proc/meminfo names as the machine's
// memory; without one, the largest number.
func memoryOfMachine(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var kib int64
		if n, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 && err == nil && kib > 0 {
			return kib << 10
		}
	}
	return math.MaxInt64
}
