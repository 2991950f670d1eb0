package operate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// If one partition carried out the change, the outcome is not "refused", whatever another partition
// reports.
func TestPartialChangeIsUncertain(t *testing.T) {
	for _, cause := range []error{errors.New("connection lost"), fmt.Errorf("%w: %w", failure.Unreachable, failure.NotLeading)} {
		err := (&deferral.Change{Verb: deferral.Cancel}).Partly(3, cause)
		if fate.Of(err) != fate.Uncertain || elsewhere(err) || errors.Is(err, failure.Unreachable) {
			t.Errorf("%v: %v", cause, fate.Of(err))
		}
		for _, want := range []string{"outcome unknown", "cancel was confirmed for 3 messages", "repeat the command", cause.Error()} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want %q in it", err, want)
			}
		}
	}
}
