package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// The frames that report a failed publish, byte by byte: to a standard client by the
// text, and to one that asked for extensions by the code.
func TestFailedPublishReportsRefusal(t *testing.T) {
	for _, test := range []struct {
		err                error
		standard, extended string
	}{
		{
			failure.TooFewISR,
			"E_PUB_FAILED PUB failed, refused: not enough in-sync replicas", "E_FAILED_ON_NOT_WRITABLE ",
		},
		{
			fmt.Errorf("n2: %w", failure.DiskFull),
			"E_PUB_FAILED PUB failed, refused: n2: disk nearly full", "E_FAILED_ON_NOT_WRITABLE ",
		},
		{
			fate.Mark(failure.NoSpace, fate.Refused),
			"E_PUB_FAILED PUB failed, refused: " + failure.NoSpace.Error(), "E_FAILED_ON_NOT_WRITABLE ",
		},
		{
			failure.NoLeader,
			"E_PUB_FAILED PUB failed, refused: " + failure.NoLeader.Error(), "E_FAILED_ON_NOT_WRITABLE ",
		},
		{
			failure.ShuttingDown,
			"E_PUB_FAILED PUB failed, refused: shutting down", "E_FAILED_ON_NOT_WRITABLE ",
		},
		{
			failure.NotLeading,
			"E_PUB_FAILED PUB failed, refused: this node no longer leads the partition", "E_FAILED_ON_NOT_LEADER ",
		},
		{
			failure.Moving,
			"E_PUB_FAILED PUB failed, refused: leadership is being transferred to another node", "E_FAILED_ON_NOT_LEADER ",
		},
		{
			failure.NotLeased,
			"E_PUB_FAILED PUB failed, refused: " + failure.NotLeased.Error(), "E_FAILED_ON_NOT_LEADER ",
		},
		{
			failure.QueueFull,
			"E_PUB_FAILED PUB failed, refused: too many bytes waiting to be written", "E_PUB_FAILED PUB failed, refused: too many bytes waiting to be written",
		},
		{
			failure.Unconfirmed,
			"E_PUB_FAILED PUB failed, outcome unknown: written, but not confirmed by all in-sync replicas",
			"E_PUB_FAILED PUB failed, outcome unknown: written, but not confirmed by all in-sync replicas",
		},
		{
			context.DeadlineExceeded,
			"E_PUB_FAILED PUB failed, outcome unknown: context deadline exceeded", "E_PUB_FAILED PUB failed, outcome unknown: context deadline exceeded",
		},
		{ // a retry was refused, but the first attempt may have been written
			fate.Mark(failure.TooFewISR, fate.Uncertain),
			"E_PUB_FAILED PUB failed, outcome unknown: not enough in-sync replicas", "E_PUB_FAILED PUB failed, outcome unknown: not enough in-sync replicas",
		},
		{
			fate.Mark(failure.NotLeading, fate.Uncertain),
			"E_PUB_FAILED PUB failed, outcome unknown: this node no longer leads the partition",
			"E_PUB_FAILED PUB failed, outcome unknown: this node no longer leads the partition",
		},
		{
			syscall.ENOSPC, // its fate is unknown
			"E_PUB_FAILED PUB failed, outcome unknown: no space left on device", "E_PUB_FAILED PUB failed, outcome unknown: no space left on device",
		},
		{
			fate.Mark(errors.New("rotten"), fate.Corrupt),
			"E_PUB_FAILED PUB failed, outcome unknown: rotten", "E_PUB_FAILED PUB failed, outcome unknown: rotten",
		},
		{failure.MessageTooBig, `E_BAD_MESSAGE PUB message too big for topic "t"`, `E_BAD_MESSAGE PUB message too big for topic "t"`},
	} {
		for reader, want := range map[audience]string{standard: test.standard, naming: test.extended, extended: test.extended} {
			e := publishError(nsq.Pub, "t", test.err, reader)
			if e.Error() != want {
				t.Errorf("%v, audience %v: %q, want %q", test.err, reader, e.Error(), want)
			}
			if e.Fatal() != strings.HasPrefix(want, "E_BAD") {
				t.Errorf("%q ends the connection: %v", want, e.Fatal())
			}
		}
	}
}

// A client that asked for extensions gets their codes for every publishing command,
// and the connection continues.
func TestExtendedClientsGetRefusalCodes(t *testing.T) {
	h := newHarness(t, Options{})
	const (
		ok          = "\x00\x00\x00\x06\x00\x00\x00\x00OK"
		notWritable = "\x00\x00\x00\x1d\x00\x00\x00\x01E_FAILED_ON_NOT_WRITABLE " // size, frame type error, the code and a space
		notLeader   = "\x00\x00\x00\x1b\x00\x00\x00\x01E_FAILED_ON_NOT_LEADER "
		refused     = "\x00\x00\x00\x41\x00\x00\x00\x01E_PUB_FAILED PUB failed, refused: not enough in-sync replicas"
		mRefused    = "\x00\x00\x00\x43\x00\x00\x00\x01E_MPUB_FAILED MPUB failed, refused: not enough in-sync replicas"
		dRefused    = "\x00\x00\x00\x43\x00\x00\x00\x01E_DPUB_FAILED DPUB failed, refused: not enough in-sync replicas"
	)
	// Clients of youzan's nsq always send these fields.
	publishes := "PUB closed\n" + sized("a") + mpub("closed", "a") + "DPUB closed 1\n" + sized("a") + "PUB t\n" + sized("a")
	for identity, want := range map[string]string{
		`{"extend_support":true}`:  ok + notWritable + notWritable + notWritable + ok,
		`{"desired_tag":""}`:       ok + notWritable + notWritable + notWritable + ok,
		`{"multiplexing":false}`:   ok + notWritable + notWritable + notWritable + ok,
		`{"extend_support":false}`: ok + refused + mRefused + dRefused + ok,
		`{}`:                       ok + refused + mRefused + dRefused + ok,
	} {
		w := h.dial(t)
		w.send("IDENTIFY\n" + sized(identity) + publishes)
		w.expectBytes(want)
	}
	w := h.dial(t)
	w.send("IDENTIFY\n" + sized(`{"extend_support":true}`) + "PUB moved\n" + sized("a"))
	w.expectBytes(ok + notLeader)
}

// expectBytes reads exactly these bytes.
func (w *wire) expectBytes(want string) {
	w.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(w, got); err != nil || string(got) != want {
		w.t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

// The size before an MPUB is only an upper bound, as in nsqd: clients write arbitrary values there.
// The frames are those of published clients, byte by byte.
func TestBatchEndsAtInnerSizes(t *testing.T) {
	h := newHarness(t, Options{})
	const inner = "\x00\x00\x00\x03\x00\x00\x00\x03one\x00\x00\x00\x05three\x00\x00\x00\x01!" // 25 bytes
	for name, size := range map[string]string{
		"go-nsq":                            "\x00\x00\x00\x19",
		"nsq-ruby: without the count":       "\x00\x00\x00\x15",
		"squeaky, nsq-go: the bodies alone": "\x00\x00\x00\x09",
		"one":                               "\x00\x00\x00\x01",
		"the largest that is allowed":       "\x00\x50\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			w := h.dial(t)
			topic := strings.NewReplacer(" ", "", ":", "", ",", "").Replace(name)
			w.send("MPUB " + topic + "\n" + size + inner + "PUB " + topic + "\n" + sized("after") + "SUB " + topic + " c\nRDY 10\n")
			w.expect("OK", "OK", "OK")
			for _, want := range []string{"one", "three", "!", "after"} {
				if m := w.frame(); !strings.HasPrefix(m, "message ") || !strings.HasSuffix(m, " "+want) {
					t.Errorf("%q, want %q", m, want)
				}
			}
		})
	}
}
