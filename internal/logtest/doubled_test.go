package logtest

import "testing"

func TestDoubledWordsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"remove n4: remove n4: node not found":                "remove n4",
		"a line\n\"error\":\"metadata: metadata: sync: EIO\"": "metadata",
		"remove n4: node n4: node not found":                  "",
		"sub-metadata: metadata: sync":                        "",
		"1: 1: 2":                                             "",
		"not the leader: not the leader\n":                    "not the leader",
		"{\"a\": {\"a\": 1}}":                                 "",
	} {
		if got := Doubled(text); got != want {
			t.Errorf("%q says %q twice, want %q", text, got, want)
		}
	}
}
