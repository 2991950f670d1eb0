package steps_test

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/test/steps"
)

func TestFirstFailureEndsTheList(t *testing.T) {
	cause := errors.New("cause")
	var did []string
	err := steps.Run(func() {
		did = append(did, steps.Need("one", nil))
		defer func() { did = append(did, "undone") }()
		steps.During("two", func() {
			steps.Must(cause)
			did = append(did, "two")
		})
		did = append(did, "three")
	})
	if !errors.Is(err, cause) || err.Error() != "two: cause" {
		t.Errorf("the error is %v", err)
	}
	if len(did) != 2 || did[1] != "undone" {
		t.Errorf("did %v", did)
	}
}

func TestOtherPanicsPass(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic of a step is lost")
		}
	}()
	_ = steps.Run(func() { panic("BUG") })
}
