package node

import "testing"

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
