package node

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/config"
)

// fixedListener is a listener in name only.
type fixedListener struct {
	net.Listener
	at net.Addr
}

func (l fixedListener) Addr() net.Addr { return l.at }

func boundAt(ip string, port int) []net.Listener {
	return []net.Listener{fixedListener{at: &net.TCPAddr{IP: net.ParseIP(ip), Port: port}}}
}

func TestAdvertisedAddresses(t *testing.T) {
	unix := []net.Listener{fixedListener{at: &net.UnixAddr{Name: "/x"}}}
	for _, tt := range []struct {
		name string
		from config.Advertise
		ls   Listeners
		want config.Advertise
	}{
		{"the bound address", config.Advertise{}, Listeners{TCP: boundAt("127.0.0.1", 5), HTTP: boundAt("::1", 6)}, config.Advertise{Host: "127.0.0.1", TCP: "127.0.0.1:5", HTTP: "[::1]:6"}},
		{"the host name for every address", config.Advertise{}, Listeners{TCP: boundAt("0.0.0.0", 5), Cluster: boundAt("::", 7)}, config.Advertise{Host: "me", TCP: "me:5", Cluster: "me:7"}},
		{"the given host", config.Advertise{Host: "a.example"}, Listeners{TCP: boundAt("0.0.0.0", 5), HTTPS: boundAt("10.0.0.1", 6)}, config.Advertise{Host: "a.example", TCP: "a.example:5", HTTPS: "a.example:6"}},
		{"a given address", config.Advertise{Host: "a", TCP: "b:9"}, Listeners{TCP: boundAt("0.0.0.0", 5), Lookup: boundAt("0.0.0.0", 8)}, config.Advertise{Host: "a", TCP: "b:9", Lookup: "a:8"}},
		{"a unix socket", config.Advertise{}, Listeners{TCP: unix}, config.Advertise{Host: "me"}},
	} {
		if diff := cmp.Diff(tt.want, Advertised(tt.from, &tt.ls, "me")); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestLocalhostIsServedWhereItResolves(t *testing.T) {
	bound, err := listen(t.Context(), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ips, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	port := PortOf(bound[0].Addr().String())
	for _, ip := range ips {
		probe, err := net.Listen("tcp", net.JoinHostPort(ip.Unmap().String(), "0"))
		if err != nil {
			continue // not on this machine
		}
		probe.Close()
		conn, err := net.Dial("tcp", net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(port)))
		if err != nil {
			t.Errorf("not at %v: %v", ip, err)
			continue
		}
		conn.Close()
	}
	for _, l := range bound {
		l.Close()
	}
}

func TestUnixSocketLeftBehindIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nsqd.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	bound, err := listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a live socket was taken: %v", err)
	}
	bound[0].Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = listen(t.Context(), path)
	if _, address := errors.AsType[*AddressError](err); !address {
		t.Errorf("a file was taken for a socket: %v", err)
	}
}
