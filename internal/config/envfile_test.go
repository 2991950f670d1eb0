package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironmentFileIsReadLikeSystemd(t *testing.T) {
	const text = "# a comment \\\n" +
		"; another\n\n" +
		"  BROKERD_NODE_ID=n1  \r\n" +
		"BROKERD_A = x y # z\n" +
		"BROKERD_B=\"a \\\"quoted\\\" \\n \\$HOME\"\n" +
		"BROKERD_C='as \\it is \"here\"'\n" +
		"BROKERD_D=one\\\n two\n" +
		"BROKERD_E=\"two\nlines\"\n" +
		"BROKERD_F=\n" +
		"BROKERD_G=\"a\"'b'c\\ \n" +
		"BROKERD_H=\"kept  \"  \n" +
		"BROKERD_I=a\"b\"c\n" +
		"BROKERD_J=it's ours\n" +
		"BROKERD_K=\"a\" \"b\"\n" +
		"GOMEMLIMIT=3GiB"
	want := []string{
		"BROKERD_NODE_ID=n1", "BROKERD_A=x y # z", `BROKERD_B=a "quoted" \n $HOME`, `BROKERD_C=as \it is "here"`, "BROKERD_D=one two",
		"BROKERD_E=two\nlines", "BROKERD_F=", "BROKERD_G=abc ", "BROKERD_H=kept  ",
		`BROKERD_I=a"b"c`, "BROKERD_J=it's ours", "BROKERD_K=ab", "GOMEMLIMIT=3GiB",
	}
	got, err := ParseEnvironmentFile("f", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ text, want string }{
		{"A=1\n\nexport B=2\n", "f:3: this is not NAME=VALUE"},
		{"A=\"x\ny\"\nnonsense\n", "f:3: this is not NAME=VALUE"},
		{"1A=2", "f:1: this is not NAME=VALUE"},
		{"=2", "f:1: this is not NAME=VALUE"},
		{"A=1\nB=\"x\nC=3\n", "f:2: the quotes of B are not closed"},
	} {
		if _, err := ParseEnvironmentFile("f", c.text); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	for _, text := range []string{"", "\n", "  ", "#", "A=1\\", strings.Repeat("\n", 1000)} {
		if _, err := ParseEnvironmentFile("f", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzEnvironmentFile(f *testing.F) {
	f.Add("A=1\nB=\"x\\\ny\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		environ, err := ParseEnvironmentFile("f", text)
		for _, v := range environ {
			if name, _, ok := strings.Cut(v, "="); !ok || !isVariable(name) || err != nil {
				t.Errorf("%q: %q %v", text, v, err)
			}
		}
	})
}
