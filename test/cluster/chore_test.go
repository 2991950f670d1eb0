package main

import (
	"strings"
	"testing"
)

// TestCheckerFindsViolations adds deliveries that must not happen.
func TestCheckerFindsViolations(t *testing.T) {
	for _, test := range []struct{ text, id, want string }{
		{"a", "1", ""},
		{"b", "1", "b came to c"},
		{"a", "2", "a was delivered to c with the ids [1 2]"},
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

// TestKeyOrderIsChecked adds deliveries out of order.
func TestKeyOrderIsChecked(t *testing.T) {
	for _, test := range []struct {
		name, deliveries, want string // deliveries: a text with + if it is finished, with - if it is requeued
	}{
		{"in order, keys apart", "a-001+ b-001+ a-002- a-002+ a-002- a-003+ b-002+", ""},
		{"over one that is missing", "a-001+ a-003+", "a-003 was delivered, 1 before it has not been finished"},
		{"the first is missing", "a-002+", "a-002 was delivered, 0 before it has not been finished"},
		{"before the finish", "a-001- a-002+", "a-002 was delivered, 1 before it has not been finished"},
		{"again behind the next", "a-001+ a-002+ a-001+", "a-001 was redelivered after 2"},
	} {
		o := &keyOrder{keys: map[string]keyState{}}
		for d := range strings.FieldsSeq(test.deliveries) {
			text, again := d[:len(d)-1], d[len(d)-1] == '-'
			o.judge(text)
			o.answered(text, again)
		}
		if got := strings.Join(o.found, "; "); got != test.want {
			t.Errorf("%s: found %q, want %q", test.name, got, test.want)
		}
	}
}
