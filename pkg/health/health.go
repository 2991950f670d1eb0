// Package health computes the health of a node or cluster from findings, each with a code and a
// severity.
//
// It decides which codes make something unhealthy, degraded, or neither. It observes nothing
// itself: its callers add to Findings.
//
// Invariants:
//
//  1. A code means the same wherever it appears; what is not in the table is failing.
//  2. A Report is unhealthy if one reason is failing, else degraded if one is degrading.
//
// Start at Findings.
package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is the health of a node or a cluster. Degraded: it serves, with less safety
// than it should have.
type Report struct {
	Healthy  bool     `json:"healthy"`
	Degraded bool     `json:"degraded"`
	Reasons  []Reason `json:"reasons"` // the gravest first; those of a healthy cluster are for information
}

// Reason is one kind of trouble.
type Reason struct {
	Code  string `json:"code"` // partitions_offline, disk_full, log_corrupt, nodes_down, …
	Count int    `json:"count"`
	What  string `json:"what"` // for people
}

// Gravity is what a reason means for the health.
type Gravity uint8

// The gravities, in their order.
const (
	ForInformation Gravity = iota // it is in progress, or wanted
	Degrading                     // it serves, with less safety than it should have
	Failing                       // someone is refused something now
)

// gravities is the table of the codes that Health may have. One that is not here
// is failing.
var gravities = map[string]Gravity{
	"partitions_moving":           ForInformation,
	"nodes_draining":              ForInformation,
	"messages_spinning":           ForInformation,
	"messages_blocked":            ForInformation,
	"dead_letters_refused":        Degrading,
	"topics_full":                 Degrading,
	"unfinished_dropped":          ForInformation,
	"dedup_window_short":          ForInformation,
	"channel_stalled":             ForInformation,
	"channel_growing":             ForInformation,
	"two_voters":                  ForInformation,
	"certificate_ends":            ForInformation,
	"certificate_ended":           Degrading,
	"join_other_cluster":          Degrading,
	"clock_skew":                  Degrading,
	"version_skew":                ForInformation,
	"upgrade_not_finalized":       ForInformation,
	"cluster_forming":             Degrading,
	"nodes_down":                  Degrading,
	"nodes_silent":                Degrading,
	"member_unreachable":          Degrading,
	"partitions_under_replicated": Degrading,
	"partitions_few_replicas":     Degrading,
	"metadata_tolerance":          Degrading,
	"drain_stuck":                 Degrading,
	"move_stuck":                  Degrading,
	"role_change_stalled":         Degrading,
	"partitions_not_led":          Failing,
	"replication_stalled":         Degrading,
	"replica_slow":                Degrading,
	"uncommitted_budget":          Degrading,
	"log_corrupt":                 Degrading,
	"stray_data":                  Degrading,
	"redo_journal_kept":           Degrading,
	"positions_lost":              Degrading,
	"data_lost":                   Degrading,
	"copies_set_aside":            Degrading,
	"replica_refusing":            Degrading,
	"replicas_outdated":           Degrading,
	"replica_failed":              Degrading,
	"leader_failed":               Failing,
	"exiting":                     Degrading,
	"disk_full":                   Failing,
	"metadata_disk_full":          Failing,
	"disk_failed":                 Failing,
	"partitions_offline":          Failing,
	"partitions_under_min_isr":    Failing,
	"no_controller":               Failing,
	"metadata_quorum":             Failing,
}

// namesShown is how many names a reason lists.
const namesShown = 3

// Names writes the first few of some names, and how many more there are.
func Names(names []string) string {
	text := strings.Join(names[:min(len(names), namesShown)], " ")
	if more := len(names) - namesShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Findings gathers reasons by code.
type Findings struct {
	names map[string][]string // what each is about
	what  map[string]string
}

// NewFindings returns Findings without any reason.
func NewFindings() *Findings { return &Findings{map[string][]string{}, map[string]string{}} }

// Add notes one thing that a code is about.
func (f *Findings) Add(code, what, name string) {
	f.names[code] = append(f.names[code], name)
	f.what[code] = what
}

// Has reports whether something was found that a code is about.
func (f *Findings) Has(code string) bool { return f.names[code] != nil }

// Report makes the verdict: the gravest reasons first.
func (f *Findings) Report() Report {
	h := Report{Healthy: true, Reasons: []Reason{}}
	worst := ForInformation
	for _, code := range slices.Sorted(maps.Keys(f.names)) {
		names := f.names[code]
		h.Reasons = append(h.Reasons, Reason{Code: code, Count: len(names), What: fmt.Sprintf("%s: %s", f.what[code], Names(names))})
		worst = max(worst, GravityOf(code))
	}
	slices.SortStableFunc(h.Reasons, func(a, b Reason) int { return int(GravityOf(b.Code)) - int(GravityOf(a.Code)) })
	h.Healthy, h.Degraded = worst == ForInformation, worst == Degrading
	return h
}

// GravityOf returns what a code means for the health.
func GravityOf(code string) Gravity {
	g, known := gravities[code]
	if !known {
		return Failing
	}
	return g
}
