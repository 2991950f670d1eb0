package web

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/limit"
)

func TestBodyIsReadWithoutTrustingItsLength(t *testing.T) {
	s := NewBodies(limit.NewMemory(1 << 30))
	want := strings.Repeat("0123456789", 20_000)
	r := httptest.NewRequest("POST", "/pub", strings.NewReader(want))
	r.ContentLength = -1
	b, err := s.Read(r, len(want))
	if err != nil {
		t.Fatal(err)
	}
	if string(b.Bytes()) != want {
		t.Error("the body was changed")
	}
	b.Release()
	r = httptest.NewRequest("POST", "/pub", strings.NewReader(want))
	r.ContentLength = -1
	if _, err := s.Read(r, len(want)-1); !errors.Is(err, ErrBodyTooLarge) {
		t.Errorf("got %v", err)
	}
	if used := s.memory.Usage().Used; used != 0 {
		t.Errorf("%d bytes are still charged", used)
	}
}
