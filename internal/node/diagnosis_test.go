package node

import (
	"reflect"
	"testing"
)

func TestDiagnosisHasNoPasswords(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`auth = "http://user:pw@auth.example/x"`, `auth = "http://REDACTED@auth.example/x"`},
		{`auth = ["https://a.example/x?token=1&b=2", "http://tok@b"]`, `auth = ["https://a.example/x?REDACTED", "http://REDACTED@b"]`},
		{`auth = "http://user:p@w/@auth.example/x?token=1"`, `auth = "http://REDACTED@auth.example/x?REDACTED"`},
		{`address = "127.0.0.1:4150" # default`, `address = "127.0.0.1:4150" # default`},
		{`zone = "a@b"`, `zone = "a@b"`},
		{`auth = "http://a.example/" # user@host`, `auth = "http://a.example/" # user@host`},
	} {
		if got := withoutPasswords(test.text); got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
}

// TestOptionsAreAnsweredWithoutPasswords: who may read options need not be an administrator.
func TestOptionsAreAnsweredWithoutPasswords(t *testing.T) {
	c := &runtimeConfig{}
	c.options.Auth.HTTPAddresses = []string{"auth:4180", "https://ops:secret@auth.example/check?key=secret"}
	c.options.Statsd.Address = "statsd://ops:secret@a:1"
	for name, want := range map[string]any{
		"auth_http_address": []string{"auth:4180", "https://REDACTED@auth.example/check?REDACTED"},
		"statsd_address":    "statsd://REDACTED@a:1",
		"max_rdy_count":     0,
	} {
		if got, known := c.Option(name); !known || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
