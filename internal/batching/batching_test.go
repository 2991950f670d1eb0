package batching

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLinesAreSentWhenInputPauses(t *testing.T) {
	reader, writer := io.Pipe()
	sent := make(chan int, 2)
	ended := make(chan error, 1)
	limits := Limits{Messages: 10, Bytes: 10, Linger: time.Millisecond}
	go func() {
		ended <- SendLines(t.Context(), reader, limits, func(bodies [][]byte) error { sent <- len(bodies); return nil })
	}()
	for range 2 {
		if _, err := io.WriteString(writer, "line\n"); err != nil {
			t.Fatal(err)
		}
		if n := <-sent; n != 1 {
			t.Errorf("a batch of %d, want 1", n)
		}
	}
	_ = writer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBatchIsFullByMessagesOrBytes(t *testing.T) {
	const text = "aaaa\n\nbbbb\ncc\ndddddddddddddddd\ne"
	for _, test := range []struct {
		limits Limits
		want   []string
	}{
		{Limits{Messages: 2, Bytes: 100}, []string{"aaaa bbbb", "cc dddddddddddddddd", "e"}},
		{Limits{Messages: 9, Bytes: 10}, []string{"aaaa bbbb cc", "dddddddddddddddd", "e"}},
	} {
		var got []string
		test.limits.Linger = time.Hour
		err := SendLines(t.Context(), strings.NewReader(text), test.limits, func(bodies [][]byte) error {
			words := make([]string, len(bodies))
			for i, b := range bodies {
				words[i] = string(b)
			}
			got = append(got, strings.Join(words, " "))
			return nil
		})
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, %v, want %q", test.limits, got, err, test.want)
		}
	}
}

func TestSendingEndsWithTheFirstError(t *testing.T) {
	failed := errors.New("failed")
	sent := 0
	err := SendLines(t.Context(), strings.NewReader("a\nb\nc\n"), Limits{Messages: 1, Bytes: 10, Linger: time.Hour}, func([][]byte) error { sent++; return failed })
	if !errors.Is(err, failed) || sent != 1 {
		t.Errorf("%d batches, %v", sent, err)
	}
	long := strings.NewReader(strings.Repeat("x", maxLineBytes+1))
	if err := SendLines(t.Context(), long, Limits{Messages: 1, Bytes: 10, Linger: time.Hour}, func([][]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "line longer than 16.0 MiB") {
		t.Errorf("a line that is too long: %v", err)
	}
}
