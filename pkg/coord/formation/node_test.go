package formation

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/fate"
)

// TestARefusalIsWarnedOfOnce: what waiting does not mend is said, but not with
// every look; a node that is not there yet is no news.
func TestARefusalIsWarnedOfOnce(t *testing.T) {
	alert := fate.Mark(&net.OpError{Op: "remote error", Err: tls.AlertError(48)}, fate.Refused)
	for _, test := range []struct {
		name  string
		looks []error
		warns int
	}{
		{"certificate", []error{alert, alert, alert}, 1},
		{"another reason", []error{alert, fate.Refuse("wrong cluster"), alert}, 3},
		{"nobody there", []error{
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, io.EOF,
			context.DeadlineExceeded, fate.Mark(errors.New("broke"), fate.Uncertain),
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said bytes.Buffer
			look := 0
			n := New(Options{
				Node: "n1", Address: "n1", Join: []string{"n2"}, Expect: 2,
				Logger: slog.New(slog.NewTextHandler(&said, nil)),
				Call:   func(context.Context, string, []byte) ([]byte, error) { return nil, test.looks[look] },
			})
			for look = range test.looks {
				if answers, _, err := n.look(t.Context()); len(answers) > 0 || err != nil {
					t.Error(answers, err)
				}
			}
			if got := strings.Count(said.String(), "level=WARN"); got != test.warns {
				t.Errorf("%d warnings, not %d: %s", got, test.warns, said.String())
			}
		})
	}
}
