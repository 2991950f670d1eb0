package peer

import (
	"net"
	"testing"
)

func TestTCPDialsFromConfiguredHost(t *testing.T) {
	l, err := (TCP{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for local, want := range map[string]string{"127.0.0.7": "127.0.0.7", "": "127.0.0.1", "0.0.0.0": "127.0.0.1"} {
		c, err := (TCP{}).Dial(t.Context(), local, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if host, _, _ := net.SplitHostPort(c.LocalAddr().String()); host != want {
			t.Errorf("from %q: dialled from %s", local, host)
		}
		c.Close()
	}
	if _, err := (TCP{}).Dial(t.Context(), "no such host", l.Addr().String()); err == nil {
		t.Error("dialled from nowhere")
	}
}
