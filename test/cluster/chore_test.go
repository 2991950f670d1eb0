package main

import (
	"strings"
	"testing"
)

// TestAChoreFindsWhatIsWrong plants what must not come.
func TestAChoreFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ text, id, want string }{
		{"a", "1", ""},
		{"b", "1", "b came to c"},
		{"a", "2", "a came to c by the ids [1 2]"},
	} {
		c := &chore{got: map[string]map[string]map[string]struct{}{"c": {}}, keeps: map[string]bool{}}
		if c.note("c", "a", "1") {
			t.Error("gives back what it is to finish")
		}
		c.note("c", test.text, test.id)
		err := c.only("c", []string{"a"})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s by %s: %v, want %q", test.text, test.id, err, test.want)
		}
		c.keep("c", true)
		if !c.note("c", "b", "3") || c.only("c", []string{"a"}) == nil {
			t.Error("finishes what it is to give back, or does not find another message")
		}
		if err := c.only("c", []string{"b"}); err != nil {
			t.Errorf("remembers what came before: %v", err)
		}
	}
}
