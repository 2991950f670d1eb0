package lookupd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestBadClientsDoNotFillTheLog(t *testing.T) {
	const clients = 50
	join := "  V1IDENTIFY\n" + sized(introduced)
	for kind, tt := range map[string]struct {
		input string
		lines int // with "producer connected" and "producer disconnected"
	}{
		"bad protocol magic":    {"  V9", 1},
		"refused":               {"  V1" + strings.Repeat("\x1bx", 400) + "\n", 1},
		"producer connected":    {join, 2},
		"producer disconnected": {join, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			srv := &Server{Directory: NewDirectory(0, 0), Self: Self{Version: "1.3.0"}, Log: slog.New(slog.NewTextHandler(&said, nil))}
			for range clients {
				near, far := net.Pipe()
				go func() {
					_, _ = io.WriteString(near, tt.input)
					_, _ = near.Read(make([]byte, 1<<10))
					near.Close()
				}()
				srv.handle(t.Context(), far)
				synctest.Wait()
			}
			got := said.String()
			if strings.Count(got, "\n") != tt.lines || strings.Count(got, `msg="`+kind)+strings.Count(got, "msg="+kind) != 1 {
				t.Errorf("%s: %d lines: %.2000q", kind, strings.Count(got, "\n"), got)
			}
			if len(got) > tt.lines*600 {
				t.Errorf("%s: %d bytes", kind, len(got))
			}
		})
	}
}

// full is a listener of a process that has no descriptor left.
type full struct {
	net.Listener
	tries int
}

// Accept implements net.Listener.
func (l *full) Accept() (net.Conn, error) {
	l.tries++
	return nil, syscall.EMFILE
}

// Close implements net.Listener.
func (l *full) Close() error { return nil }

// Without descriptors, connections are tried again after pauses, which do not use up a processor.
func TestServerWithoutDescriptorsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var logged bytes.Buffer
		l := &full{}
		srv := &Server{Directory: NewDirectory(0, 0), Log: slog.New(slog.NewTextHandler(&logged, nil))}
		if err := srv.Serve(ctx, l); err != nil {
			t.Error(err)
		}
		if l.tries > 100 || !strings.Contains(logged.String(), "cannot accept connection") {
			t.Errorf("%d tries, logged %s", l.tries, &logged)
		}
	})
}
