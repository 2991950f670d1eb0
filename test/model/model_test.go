package model

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/internal/testrand"
)

var large = flag.Bool("large", false, "search the large scopes, too: minutes, and gigabytes of memory")

// scopes are the bounds within which everything is explored. Each one examines
// one part of the protocol closely: bounds that did this for all parts at once
// would have too many states.
func scopes() map[string]Config {
	return map[string]Config{
		"elections": {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 3, Versions: 4, MinISR: 1},
		"in sync":   {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 5, MinISR: 1},
		"delays":    {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 3, Delayed: 1, MinISR: 1},
		"old terms": {SyncAlways: true, Publishes: 2, Log: 1, Epochs: 3, Versions: 3, Delayed: 1, MinISR: 1},
		"restarts":  {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 3, Crashes: 1, MinISR: 1},
		"power":     {SyncAlways: false, Publishes: 2, Log: 1, Epochs: 2, Versions: 4, Crashes: 1, MinISR: 1},
		"one term":  {SyncAlways: true, Publishes: 3, Log: 2, Epochs: 2, Versions: 2, MinISR: 1},
		"channel":   {SyncAlways: true, Positions: true, InSync: 2, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, MinISR: 1},
		"few":       {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 3, MinISR: 2},
		"disks":     {SyncAlways: true, Disks: true, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, Crashes: 1, MinISR: 2},
		"one disk":  {SyncAlways: true, Disks: true, InSync: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, Crashes: 2, MinISR: 1},
		"order":     {SyncAlways: true, Positions: true, Held: 2, Publishes: 2, Log: 2, Epochs: 2, Versions: 2, Crashes: 1, MinISR: 1},
		"shares":    {SyncAlways: true, Positions: true, Drops: true, InSync: 2, Held: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, MinISR: 1},
		"lost ends": {SyncAlways: true, Damage: LostEnd, InSync: 2, Held: 1, Publishes: 2, Log: 2, Epochs: 3, Versions: 3, Crashes: 1, MinISR: 1},
		"old disks": {SyncAlways: true, Damage: OlderDisk, InSync: 2, Held: 1, Publishes: 2, Log: 2, Epochs: 3, Versions: 3, Crashes: 1, MinISR: 2},
		"one copy":  {Alone: true, InSync: 1, Positions: true, Publishes: 3, Log: 2, Epochs: 4, Versions: 4, Crashes: 2, MinISR: 1},
		"leases":    {SyncAlways: true, Held: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 2, Leases: 4, MinISR: 1},
		"one leads": {SyncAlways: true, InSync: 1, Held: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, Leases: 2, MinISR: 1},
	}
}

// largeScopes are for a machine with time: `make model`.
func largeScopes() map[string]Config {
	return map[string]Config{
		"elections, one more version": {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 3, Versions: 5, MinISR: 1},
		"delays, one more version":    {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 4, Delayed: 1, MinISR: 1},
		"old terms, two messages":     {SyncAlways: true, Publishes: 2, Log: 1, Epochs: 3, Versions: 3, Delayed: 2, MinISR: 1},
		"restarts, a third epoch":     {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 3, Versions: 3, Crashes: 1, MinISR: 1},
		"restarts and delays":         {SyncAlways: true, Publishes: 2, Log: 1, Epochs: 2, Versions: 3, Crashes: 1, Delayed: 1, MinISR: 1},
		"power, twice":                {SyncAlways: false, Publishes: 2, Log: 1, Epochs: 2, Versions: 4, Crashes: 2, MinISR: 1},
		"channel, one more version":   {SyncAlways: true, Positions: true, Publishes: 1, Log: 1, Epochs: 2, Versions: 4, MinISR: 1},
		"channel, two records":        {SyncAlways: true, Positions: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 3, MinISR: 1},
		"few, one more version":       {SyncAlways: true, Publishes: 2, Log: 2, Epochs: 2, Versions: 4, MinISR: 2},
		"disks, twice":                {SyncAlways: true, Disks: true, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, Crashes: 2, MinISR: 2},
		"one disk, one more version":  {SyncAlways: true, Disks: true, InSync: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 4, Crashes: 2, MinISR: 1},
		"order, one more version":     {SyncAlways: true, Positions: true, Held: 2, Publishes: 2, Log: 2, Epochs: 2, Versions: 3, Crashes: 1, MinISR: 1},
		"shares, two records":         {SyncAlways: true, Positions: true, Drops: true, Held: 2, Publishes: 2, Log: 2, Epochs: 2, Versions: 3, MinISR: 1},
		"lost ends, all in sync":      {SyncAlways: true, Damage: LostEnd, Held: 1, Publishes: 2, Log: 2, Epochs: 3, Versions: 4, Crashes: 1, MinISR: 1},
		"old disks, all in sync":      {SyncAlways: true, Damage: OlderDisk, Held: 1, Publishes: 2, Log: 2, Epochs: 3, Versions: 4, Crashes: 1, MinISR: 2},
		"old disks, three records":    {SyncAlways: true, Damage: OlderDisk, InSync: 2, Held: 1, Publishes: 3, Log: 2, Epochs: 3, Versions: 4, Crashes: 1, MinISR: 2},
		"one copy, three crashes":     {Alone: true, InSync: 1, Positions: true, Publishes: 4, Log: 3, Epochs: 5, Versions: 5, Crashes: 3, MinISR: 1},
		"leases, one more version":    {SyncAlways: true, Held: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 3, Leases: 4, MinISR: 1},
	}
}

// Limits of a search, in states.
const (
	usualLimit = 5_000_000
	largeLimit = 60_000_000
)

// raceLimit keeps the race detector, which makes a search ten times slower and
// can find no race in one goroutine, to the short searches.
const raceLimit = 20_000

func limit() int {
	if raceEnabled {
		return raceLimit
	}
	return usualLimit
}

// TestTheRulesAreEnough explores every scope with every rule. The test also
// checks that the search is meaningful: each kind of step that the rules allow
// occurs in at least one scope.
func TestTheRulesAreEnough(t *testing.T) {
	var mu sync.Mutex // guards taken
	var taken [stepKinds]int
	t.Run("scopes", func(t *testing.T) {
		for name, c := range scopes() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := holds(t, c, limit())
				mu.Lock()
				defer mu.Unlock()
				for k, n := range r.Taken {
					taken[k] += n
				}
			})
		}
	})
	if raceEnabled {
		return // whole searches would be needed
	}
	withoutARule := map[StepKind]bool{TellFailed: true, RollBack: true, PushChecked: true, Refuse: true, ProposeOut: true, GiveUp: true, FinishUnnoted: true, TellChangeUnnoted: true, CountShare: true}
	for k := Start + 1; k < stepKinds; k++ {
		if (taken[k] == 0) != withoutARule[k] {
			t.Errorf("kind %d (%q) was taken %d times", k, Step{Kind: k}, taken[k])
		}
	}
}

func TestTheRulesAreEnoughInLargeScopes(t *testing.T) {
	if !*large {
		t.Skip("without -large")
	}
	for name, c := range largeScopes() {
		t.Run(name, func(t *testing.T) { holds(t, c, largeLimit) })
	}
}

// holds fails the test unless c was explored to the end without a violation.
func holds(t *testing.T, c Config, limit int) Result {
	t.Helper()
	r, err := Search(c, limit)
	t.Log(r)
	if r.Violation != nil {
		t.Fatalf("refuted: %v", r)
	}
	if err != nil && !raceEnabled {
		t.Fatal(err)
	}
	return r
}

// refutations lists for each rule the scope in which a search shows its
// purpose. A second line of defence shows only without the first: the rules in
// beside are dropped as well, and the test checks that the remaining rules hold
// as long as the rule itself is kept.
func refutations() []refutation {
	return []refutation{
		{rule: AppendIsNotCommit, scope: "old terms", breaks: NothingLost},
		{rule: CommitInEpoch, scope: "elections", breaks: NothingLost},
		{rule: AckAfterSync, scope: "restarts", breaks: NoRetreat},
		{rule: MinimumHoldsEnd, scope: "few", breaks: EnoughCopies},
		{rule: FailedOnlyUnwritten, scope: "delays", breaks: FailedIsFailed},
		{rule: FenceFollower, scope: "old terms", breaks: NothingLost},
		{rule: FenceLeader, scope: "old terms", breaks: NothingLost},
		{rule: PersistEpoch, scope: "power", breaks: NoRetreat},
		{rule: CheckAndAppend, scope: "old terms", breaks: NothingLost},
		{rule: TermCloses, scope: "old terms", breaks: NothingLost, ignore: []Invariant{ClosedIsSilent}},
		{rule: Reconcile, scope: "in sync", breaks: NothingLost},
		{rule: WalkBack, scope: "in sync", breaks: NothingLost},
		{rule: ReconcileByContent, scope: "one term", breaks: NothingLost, beside: []Rule{NoRollback}, ignore: []Invariant{OneName}},
		{rule: DuplicateByContent, scope: "one term", breaks: NothingLost, beside: []Rule{NoRollback}, ignore: []Invariant{OneName}},
		{rule: SessionResets, scope: "power", breaks: NothingLost},
		{rule: NoRollback, scope: "delays", breaks: NothingLost, ignore: []Invariant{OneName}},
		{rule: ElectionBumpsEpoch, scope: "elections", breaks: OneLeader},
		{rule: ElectFromISR, scope: "elections", breaks: NothingLost},
		{rule: RestartEndsTerm, scope: "power", breaks: NothingLost},
		{rule: BootRule, scope: "power", breaks: NothingLost},
		{rule: RegisterFirst, scope: "power", breaks: NothingLost},
		{rule: EmptyLeaves, scope: "disks", breaks: NothingLost},
		{rule: LastLeaves, scope: "one disk", breaks: NothingLost},
		{rule: LossUntilTold, scope: "one disk", breaks: NothingLost},
		{rule: MissingIsSilent, scope: "disks", breaks: NothingLost},
		{rule: SuspectLast, scope: "lost ends", breaks: NothingLost},
		{rule: LongerStays, scope: "old disks", breaks: NoRetreat},
		{rule: CompareFirst, scope: "old disks", breaks: NothingLost},
		{rule: CompareAndSwap, scope: "in sync", breaks: NothingLost},
		{rule: ShrinkApplied, scope: "in sync", breaks: NothingLost},
		{rule: GrowCounts, scope: "in sync", breaks: NothingLost},
		{rule: UndecidedCounts, scope: "in sync", breaks: NothingLost},
		{rule: GrowNeedsLife, scope: "power", breaks: NothingLost},
		{rule: GrowNeedsStart, scope: "in sync", breaks: NothingLost},
		{rule: FinReplicatedFirst, scope: "channel", breaks: PositionHolds},
		{rule: PositionWaits, scope: "channel", breaks: PositionHolds},
		{rule: PositionsJoin, scope: "channel", breaks: PositionHolds},
		{rule: SnapshotFirst, scope: "order", breaks: InOrder},
		{rule: SnapshotCountsSent, scope: "order", breaks: PositionHolds},
		{rule: SnapshotTakenOnce, scope: "order", breaks: PositionHolds},
		{rule: ShareNamesPrevious, scope: "shares", breaks: PositionHolds},
		{rule: FinNoted, scope: "order", breaks: PositionHolds},
		{rule: CheckpointKeeps, scope: "one copy", breaks: PositionHolds},
		{rule: OrderedBootRule, scope: "order", breaks: PositionHolds},
		{rule: ForgetBeyondEnd, scope: "one copy", breaks: InOrder, ignore: []Invariant{PositionHolds}},
		{rule: LeaseEnds, scope: "leases", breaks: LateIsSilent},
		{rule: LeaseBegins, scope: "leases", breaks: LateIsSilent},
		{rule: LeaseNeedsJoiner, scope: "one leads", breaks: LateIsSilent},
		{rule: LeaseAskedLast, scope: "leases", breaks: LateIsSilent},
		{rule: RelayBeginsAnew, scope: "leases", breaks: LateIsSilent},
	}
}

type refutation struct {
	rule   Rule
	scope  string
	breaks Invariant
	beside []Rule
	ignore []Invariant // what breaks sooner and matters less
}

func (r refutation) config() Config {
	return scopes()[r.scope].Dropping(r.beside...).Ignoring(r.ignore...)
}

// TestEveryRuleIsNeeded drops the rules one at a time. The shortest history
// that each loss makes possible stands in testdata/refutations.txt.
func TestEveryRuleIsNeeded(t *testing.T) {
	told := make([]string, rules)
	t.Run("rules", func(t *testing.T) {
		for _, tc := range refutations() {
			t.Run(tc.rule.String(), func(t *testing.T) {
				t.Parallel()
				r, err := Search(tc.config().Dropping(tc.rule), limit())
				if errors.Is(err, ErrTooMany) && raceEnabled {
					t.Skip(err)
				}
				if err != nil || r.Violation == nil {
					t.Fatalf("not refuted: %v %v", r, err)
				}
				if r.Violation.Invariant != tc.breaks {
					t.Errorf("it breaks %v, want %v", r.Violation.Invariant, tc.breaks)
				}
				told[tc.rule] = tc.tell(r)
				t.Log(told[tc.rule])
			})
		}
	})
	for r := range rules {
		if told[r] == "" && !raceEnabled {
			t.Errorf("no configuration refutes a protocol without %v", r)
		}
	}
	if !raceEnabled && !t.Failed() {
		golden.Compare(t, "testdata/refutations.txt", strings.Join(told, "\n"))
	}
}

func (r refutation) tell(found Result) string {
	without := []string{r.rule.String()}
	for _, b := range r.beside {
		without = append(without, b.String())
	}
	return fmt.Sprintf("without %s (%s, %d steps)\n%v", strings.Join(without, " and "), r.scope, len(found.Trace)-1, found)
}

// TestRedundantRulesAreRedundant shows that the rules dropped beside a rule
// do not alone cause the violation that the rule prevents.
func TestRedundantRulesAreRedundant(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range refutations() {
		name := fmt.Sprintf("%s without %v", tc.scope, tc.beside)
		if len(tc.beside) == 0 || seen[name] {
			continue
		}
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holds(t, tc.config(), limit())
		})
	}
}

// TestReplicaNamesAreSymmetric walks at random and renames the replicas of
// the states it meets.
func TestReplicaNamesAreSymmetric(t *testing.T) {
	rng := testrand.New(t)
	f := newFingerprinter()
	c := Config{Publishes: 3, Log: 3, Epochs: 4, Versions: 8, Crashes: 3, Delayed: 2, Positions: true, Drops: true, Disks: true, Damage: OlderDisk, Leases: 3, MinISR: 2}
	for range 300 {
		s := c.initial()
		for range 40 {
			var following []State
			explorer{&c, func(t *State, _ Step) { following = append(following, *t) }}.next(&s)
			if len(following) == 0 {
				break
			}
			s = following[rng.IntN(len(following))]
			want := f.of(&s)
			for _, p := range orders() {
				if renamed := s.permuted(&p); f.of(&renamed) != want {
					t.Fatalf("another fingerprint after renaming by %v: %+v", p, s)
				}
			}
		}
	}
}

// TestReductionPreservesViolations compares a search that treats states that differ
// only in names as one with a search that does not, and keeps whole states.
func TestReductionPreservesViolations(t *testing.T) {
	for _, c := range []Config{
		{SyncAlways: true, Publishes: 1, Log: 1, Epochs: 2, Versions: 2, Crashes: 1, Delayed: 1, MinISR: 1},
		{SyncAlways: true, Positions: true, Disks: true, InSync: 2, Held: 1, Publishes: 1, Log: 1, Epochs: 1, Versions: 2, Crashes: 1, MinISR: 2},
		{SyncAlways: true, Positions: true, Drops: true, InSync: 2, Held: 1, Publishes: 1, Log: 1, Epochs: 1, Versions: 2, MinISR: 1},
		{SyncAlways: true, Held: 1, Publishes: 1, Log: 1, Epochs: 2, Versions: 2, Leases: 1, MinISR: 1},
		{SyncAlways: true, Damage: OlderDisk, InSync: 2, Held: 2, Publishes: 2, Log: 2, Epochs: 1, Versions: 2, Crashes: 1, MinISR: 2},
	} {
		reductionLosesNothing(t, c)
	}
}

func reductionLosesNothing(t *testing.T, c Config) {
	t.Helper()
	f := newFingerprinter()
	first := c.initial()
	seen, classes := map[State]bool{first: true}, map[uint64]bool{f.of(&first): true}
	todo := []State{first}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		explorer{&c, func(t *State, _ Step) {
			if !seen[*t] {
				seen[*t] = true
				classes[f.of(t)] = true
				todo = append(todo, *t)
			}
		}}.next(&s)
	}
	r, err := Search(c, usualLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d up to names", len(seen), r.States)
	if r.States != len(classes) {
		t.Errorf("the search found %d states, want %d", r.States, len(classes))
	}
}

func TestSearchesStopAtTheirLimit(t *testing.T) {
	r, err := Search(scopes()["elections"], 1000)
	if !errors.Is(err, ErrTooMany) || r.States < 1000 || r.States > 2000 {
		t.Errorf("%d states, %v", r.States, err)
	}
}

func TestRulesHaveNames(t *testing.T) {
	for r := range rules {
		if got, err := ParseRule(r.String()); err != nil || got != r {
			t.Errorf("%v is read as %v, %v", r, got, err)
		}
	}
	if _, err := ParseRule("none"); err == nil {
		t.Error("a rule that is none was read")
	}
}

// TestRulesAreExplained checks that docs/replication.md explains every rule and
// invariant.
func TestRulesAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/replication.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := func(name string) {
		name, _, _ = strings.Cut(name, " ")
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/replication.md does not mention %s", name)
		}
	}
	for r := range rules {
		explained(r.String())
	}
	for i := range invariants {
		explained(i.String())
	}
}

func TestTableDetectsNewFingerprints(t *testing.T) {
	var tab table
	for round := range 2 {
		for i := range uint64(2 * smallestTable) {
			if added := tab.add(i*i*i + 1); added != (round == 0) {
				t.Fatalf("round %d, %d: new %v", round, i, added)
			}
		}
	}
}

// TestEveryStepIsDescribed finds a kind of step without a sentence, and a place in one that is not filled in.
func TestEveryStepIsDescribed(t *testing.T) {
	for k := range stepKinds {
		if text := (Step{Kind: k, A: 1, B: 2, C: 1}).String(); text == "" || regexp.MustCompile(`\{(A|B|C|m|isr|also)\}`).MatchString(text) {
			t.Errorf("step %d is described as %q", k, text)
		}
	}
}
