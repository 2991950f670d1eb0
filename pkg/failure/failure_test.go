package failure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codesOfV1 returns the codes that are declared before the ones of brokerctl.
func codesOfV1(t *testing.T) []failure.Code {
	t.Helper()
	source, _, _ := strings.Cut(read(t, "code.go"), "// The codes of failures that arise in brokerctl")
	var out []failure.Code
	for _, m := range regexp.MustCompile(`(?m)^\t[A-Z]\w+ +Code = "([a-z_]+)"`).FindAllStringSubmatch(source, -1) {
		out = append(out, failure.Code(m[1]))
	}
	if len(out) < 10 {
		t.Fatalf("found %d codes", len(out))
	}
	return out
}

// TestManualListsTheCodes compares the codes of /v1, and their statuses, with docs/http-api.md.
func TestManualListsTheCodes(t *testing.T) {
	documented := map[failure.Code]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| (\\d{3}) \\|").FindAllStringSubmatch(read(t, "../../docs/http-api.md"), -1) {
		status, _ := strconv.Atoi(row[2]) // three digits
		for code := range strings.SplitSeq(row[1], ", ") {
			documented[failure.Code(strings.Trim(code, "`"))] = status
		}
	}
	for _, code := range codesOfV1(t) {
		if documented[code] != code.Status() {
			t.Errorf("%s: the manual says %d, the registry %d", code, documented[code], code.Status())
		}
		delete(documented, code)
	}
	if len(documented) > 0 {
		t.Errorf("the manual has codes that are none: %v", documented)
	}
}

// TestManualHasTheWords compares what the manual says of NSQ's HTTP endpoints with the registry.
func TestManualHasTheWords(t *testing.T) {
	words := map[string]int{}
	for _, k := range failure.All() {
		if was, known := words[k.Word]; known && was != k.Code.Status() && k.Word != "" {
			t.Errorf("%s has the statuses %d and %d", k.Word, was, k.Code.Status())
		}
		words[k.Word] = k.Code.Status()
	}
	found := 0
	for _, row := range regexp.MustCompile("(\\d{3}) ((?:`[A-Z_]+`(?:, )?)+)").FindAllStringSubmatch(read(t, "../../docs/http-api.md"), -1) {
		for word := range strings.SplitSeq(strings.TrimSuffix(row[2], ", "), ", ") {
			word = strings.Trim(word, "`")
			status, known := words[word]
			if !known {
				continue // an endpoint's own
			}
			if found++; strconv.Itoa(status) != row[1] {
				t.Errorf("%s: the manual says %s, the registry %d", word, row[1], status)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d words", found)
	}
}

// TestManualListsTheCodesOfTheProtocol compares docs/protocol.md with the registry.
func TestManualListsTheCodesOfTheProtocol(t *testing.T) {
	documented := map[string]string{}
	_, table, _ := strings.Cut(read(t, "../../docs/protocol.md"), "| code | when | connection |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[A-Z_]+`(?:, )?)+) \\| .* \\| ([a-z;, ]+) \\|$").FindAllStringSubmatch(table, -1) {
		codes := strings.Split(row[1], ", ")
		ends := strings.Split(row[2], "; ")
		for i, code := range codes {
			documented[strings.Trim(code, "`")] = ends[min(i, len(ends)-1)]
		}
	}
	for w := failure.NoWire + 1; w < failure.WireCount; w++ {
		want := "stays open"
		if w.Fatal() {
			want = "ends"
		}
		if documented[w.String()] != want {
			t.Errorf("%s: the manual says that the connection %q, the registry that it %q", w, documented[w.String()], want)
		}
		delete(documented, w.String())
		if failure.WireNamed(w.String()) != w {
			t.Errorf("%v is not found by its name", w)
		}
	}
	if len(documented) > 0 {
		t.Errorf("the manual has codes that are none: %v", documented)
	}
}

// TestFormatListsTheNumbers compares docs/format/forward.md with the registry.
func TestFormatListsTheNumbers(t *testing.T) {
	page := read(t, "../../docs/format/forward.md")
	for _, k := range failure.All() {
		row := fmt.Sprintf("| %d | %s |", k.Number, k.Text)
		if k.Number != 0 && !strings.Contains(page, "\n"+row) {
			t.Errorf("docs/format/forward.md lacks the row\n%s", row)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| .*`).FindAllStringSubmatch(page[strings.Index(page, "## Errors"):], -1) {
		n, _ := strconv.Atoi(m[1]) // digits
		if failure.Numbered(uint16(n)) == nil {
			t.Errorf("docs/format/forward.md has a number that is none: %s", m[0])
		}
	}
}

// TestManualListsTheExitCodes compares docs/brokerctl.md with the registry.
func TestManualListsTheExitCodes(t *testing.T) {
	page := read(t, "../../docs/brokerctl.md")
	for _, code := range append(codesOfV1(t), failure.Usage, failure.Failed, failure.Partial, failure.Interrupted) {
		if !strings.Contains(page, fmt.Sprintf("\n| %d | ", code.Exit())) {
			t.Errorf("docs/brokerctl.md lacks exit code %d, of %s", code.Exit(), code)
		}
	}
}

// Every row is listed, has a number of its own, and is found at whichever node.
func TestEveryKindIsListed(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^\t(\w+)\s+= (?:refused\(|of\()`).FindAllString(read(t, "kinds.go")+read(t, "kind.go"), -1)
	if got := len(failure.All()); got != len(declared) {
		t.Errorf("All lists %d kinds, %d are declared", got, len(declared))
	}
	numbers, seen := map[uint16]*failure.Kind{}, map[*failure.Kind]bool{}
	for _, k := range failure.All() {
		if seen[k] {
			t.Errorf("All lists %q twice", k)
		}
		seen[k] = true
		if was := numbers[k.Number]; was != nil && k.Number != 0 {
			t.Errorf("%q and %q have the number %d", was, k, k.Number)
		}
		numbers[k.Number] = k
		switch {
		case (k.Word == "") != (k.Code == ""):
			t.Errorf("%q has a word, %q, or a code, %q, and not both", k, k.Word, k.Code)
		case (k.Wire == failure.NoWire) != (k.Said == ""):
			t.Errorf("%q has a code, %v, or a text, %q, and not both", k, k.Wire, k.Said)
		case k.Number >= 1<<14:
			t.Errorf("%q has the number %d, which has no room beside the fate", k, k.Number)
		}
	}
}

func TestOutermostKindOfAnErrorCounts(t *testing.T) {
	for _, c := range []struct {
		err  error
		of   *failure.Kind
		when *failure.Kind // of a publish
	}{
		{fmt.Errorf("t: %w", failure.TopicNotFound), failure.TopicNotFound, failure.TopicNotFound},
		{fmt.Errorf("%w: %w", failure.StaleEpoch, failure.NoLeader), failure.NoLeader, failure.NoLeader},
		{errors.Join(errors.New("x"), failure.NodeInUse, failure.NoLeader), failure.NodeInUse, failure.NodeInUse},
		{fate.Mark(failure.TooFewISR, fate.Uncertain), failure.TooFewISR, failure.PublishUnknown},
		{failure.StaleEpoch, failure.Refusal, failure.PublishRefused},
		{fate.Refuse("something"), failure.Refusal, failure.PublishRefused},
		{fate.Mark(errors.New("x"), fate.Corrupt), failure.Damaged, failure.Damaged},
		{errors.New("x"), failure.OutcomeUnknown, failure.PublishUnknown},
		{fmt.Errorf("write: %w", syscall.ENOSPC), failure.DiskFull, failure.PublishUnknown},
		{fate.Mark(fmt.Errorf("write: %w", syscall.ENOSPC), fate.Refused), failure.DiskFull, failure.DiskFull},
		{fate.Mark(context.DeadlineExceeded, fate.Refused), failure.OutcomeUnknown, failure.PublishRefused},
		{fate.Mark(failure.CommandUnknown, fate.Refused), failure.CommandUnknown, failure.PublishRefused}, // of its topic
	} {
		if got := failure.Of(c.err); got != c.of {
			t.Errorf("Of(%v): %q, want %q", c.err, got, c.of)
		}
		if got := failure.OfPublish(c.err); got != c.when {
			t.Errorf("OfPublish(%v): %q, want %q", c.err, got, c.when)
		}
	}
	if k := failure.Find(errors.New("x")); k != nil {
		t.Errorf("an error of no kind is %q", k)
	}
}

// Clients read a broker's error of a failed publish as it was meant.
func TestFailedPublishKeepsItsFate(t *testing.T) {
	for _, err := range []error{failure.TooFewISR, failure.Unconfirmed, errors.New("x"), fate.Mark(failure.TooFewISR, fate.Uncertain)} {
		code, became := failure.Read("E_MPUB_FAILED", failure.PublishText("MPUB", err))
		if became != fate.Of(err) {
			t.Errorf("%v: %v, want %v", err, became, fate.Of(err))
		}
		if want := map[fate.Fate]int{fate.Refused: failure.ExitRefused, fate.Uncertain: failure.ExitUnavailable}[became]; code.Exit() != want || !code.Retryable() {
			t.Errorf("%v: exit code %d of %s, want %d", err, code.Exit(), code, want)
		}
	}
	for _, c := range []struct {
		code, text string
		means      failure.Code
		fate       fate.Fate
	}{
		{"E_PUB_FAILED", "PUB failed disk full", failure.Uncertain, fate.Uncertain}, // nsqd does not say
		{"E_BAD_TOPIC", "x", failure.Invalid, fate.Refused},
		{"E_SOMETHING_NEW", "x", failure.Failed, fate.Refused},
		{"", "", failure.Failed, fate.Refused},
	} {
		if code, became := failure.Read(c.code, c.text); code != c.means || became != c.fate {
			t.Errorf("%s %s: %s, %v", c.code, c.text, code, became)
		}
	}
}

func TestAboutNamesOnce(t *testing.T) {
	err := failure.About("node n9", failure.NodeNotFound)
	if again := failure.About("node n9", err); again != err || err.Error() != "node n9: node not found" || !errors.Is(err, failure.NodeNotFound) { //nolint:errorlint // the same
		t.Errorf("%v, and again %v", err, again)
	}
	if err := failure.About("node n9", nil); err != nil {
		t.Error(err)
	}
}
