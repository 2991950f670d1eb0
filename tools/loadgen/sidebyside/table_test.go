package main

import "testing"

func TestTableShowsMediansAndRatios(t *testing.T) {
	var s samples
	for _, v := range []float64{100, 300, 200} {
		s.add("nsqd", "publish", map[string]float64{"messages/s": v * 1000, "CPU": v})
		s.add("brokerd", "publish", map[string]float64{"messages/s": v * 2500, "CPU": v})
		s.add("nsqd", "e2e", map[string]float64{"ms": v / 10})
		s.add("brokerd", "e2e", map[string]float64{"ms": v / 1000})
	}
	got := s.table([]contender{{name: "nsqd"}, {name: "brokerd"}})
	want := `| load | nsqd | brokerd | ratio |
|---|--:|--:|--:|
| publish: CPU | 200 | 200 | 1.00 |
| publish: messages/s | 200,000 | 500,000 | 2.50 |
| e2e: ms | 20.0 | 0.20 | 0.01 |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMedianOfAnEvenNumberIsTheMean(t *testing.T) {
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
}

func TestSectionIsWrittenBetweenItsMarks(t *testing.T) {
	doc := "a\n<!-- measured x -->\nold\n<!-- end x -->\nb\n<!-- measured y -->\nkept\n<!-- end y -->\n"
	want := "a\n<!-- measured x -->\n\nnew\n\n<!-- end x -->\nb\n<!-- measured y -->\nkept\n<!-- end y -->\n"
	for range 2 { // the second time it finds what the first wrote
		got, err := replaceSection(doc, "x", "new\n")
		if err != nil || got != want {
			t.Fatalf("got %q, %v\nwant %q", got, err, want)
		}
		doc = got
	}
	if _, err := replaceSection(doc, "z", "new"); err == nil {
		t.Error("a section that is not there is written")
	}
}
