package auth

import (
	"net/url"
	"testing"
)

// FuzzAnswer checks that an answer which is taken can be asked about any names, permits nothing without a permission, and
// sends the secret nowhere but to the same host.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"ttl":10,"identity":"u","authorizations":[{"permissions":["publish","subscribe"],"topic":".*","channels":["^a","b$"]}]}`), "t", "ab")
	f.Add([]byte(`{"ttl":1,"authorizations":[{"permissions":[],"topic":".*","channels":[".*"]}]}`), "t", "")
	f.Add([]byte(`{"https_port":4152}`), "t", "c")
	f.Fuzz(func(t *testing.T, body []byte, topic, channel string) {
		const address = "http://auth.example:4180/auth?a=b"
		if secure, ok := secureAddress(address, body); ok {
			if u, err := url.Parse(secure); err != nil || u.Scheme != "https" || u.Hostname() != "auth.example" || u.Path != "/auth" {
				t.Errorf("%q leads to %s", body, secure)
			}
		}
		g, err := parse(body)
		if err != nil {
			return
		}
		if g.ttl <= 0 || g.ttl > maxTTL {
			t.Errorf("%q lasts for %d", body, g.ttl)
		}
		permitted := func(e entry) bool { return channel == "" && e.publish || channel != "" && e.subscribe }
		some := false
		for _, e := range g.entries {
			some = some || permitted(e) && len(e.channels) > 0
		}
		if g.Allows(topic, channel) && !some {
			t.Errorf("%q allows %q, %q, and has no permission for it", body, topic, channel)
		}
	})
}
