package lookup

import "testing"

func TestSplitAddress(t *testing.T) {
	for _, test := range []struct {
		address, host string
		port          int
	}{
		{"10.0.0.1:4150", "10.0.0.1", 4150},
		{"[::1]:4150", "::1", 4150},
		{"/run/brokerd.sock", "/run/brokerd.sock", -1},
		{"", "", -1},
		{"host:http", "host", -1},
	} {
		if host, port := splitAddress(test.address); host != test.host || port != test.port {
			t.Errorf("%q: got %q %d", test.address, host, port)
		}
	}
	if !sameAddress("[::1]:4151", "::1:4151") || sameAddress("a:1", "a:2") {
		t.Error("addresses are compared wrongly")
	}
}
