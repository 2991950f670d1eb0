package listing

import "testing"

func TestMeasureOf(t *testing.T) {
	sizes := []string{"-", "<0.1", "0.3", "12", "1,010", "1.0 KiB", "1.2 KiB", "4,110", "12 MiB", "1.0 GiB"}
	for i := 1; i < len(sizes); i++ {
		a, okA := measureOf(sizes[i-1])
		b, okB := measureOf(sizes[i])
		if !okA || !okB || a >= b {
			t.Errorf("%s is %v, %s is %v", sizes[i-1], a, sizes[i], b)
		}
	}
	ages := []string{"now", "120ms", "1.2s", "42s", "3m1s", "3h12m", "2d", "null"}
	for i := 1; i < len(ages); i++ {
		a, okA := measureOf(ages[i-1])
		b, okB := measureOf(ages[i])
		if !okA || !okB || a >= b {
			t.Errorf("%s is %v, %s is %v", ages[i-1], a, ages[i], b)
		}
	}
	never, _ := measureOf("never")
	if null, ok := measureOf("null"); !ok || null != never {
		t.Errorf("null, which tables call never, is %v", null)
	}
	for _, text := range []string{"", "orders", "12 apples", "n1"} {
		if x, ok := measureOf(text); ok {
			t.Errorf("%q is %v", text, x)
		}
	}
}

func TestColumn(t *testing.T) {
	names := []string{"TOPIC", "IN/s", "IN-FLIGHT", "OLDEST"}
	for text, want := range map[string]int{"topic": 0, "in": 1, "in/s": 1, "in_per_s": 1, "in_flight": 2, "in flight": 2, "-old": 3} {
		c := ParseColumn(text)
		if i, ok := c.In(names); !ok || i != want || c.Reverse != (text[0] == '-') {
			t.Errorf("%q is %+v: column %d, %v", text, c, i, ok)
		}
	}
	if i, ok := ParseColumn("age").In(names); ok {
		t.Errorf("a column that is not there is %d", i)
	}
	for _, test := range []struct {
		column, a, b string
		less         bool
	}{
		{"x", "12", "3", true}, {"-x", "12", "3", false}, {"x", "a", "b", true}, {"x", "12", "a", true}, {"x", "a", "12", false},
	} {
		if got := ParseColumn(test.column).Order(test.a, test.b) < 0; got != test.less {
			t.Errorf("%s: %s before %s: %v", test.column, test.a, test.b, got)
		}
	}
}
