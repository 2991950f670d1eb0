package lookupd

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
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
