package main

import "testing"

func TestTableShowsMediansAndRatios(t *testing.T) {
	s := samples{}
	for _, v := range []float64{100, 300, 200} {
		s.add("nsqd", "publish: messages/s", v*1000)
		s.add("brokerd", "publish: messages/s", v*2500)
		s.add("nsqd", "e2e: ms", v/10)
		s.add("brokerd", "e2e: ms", v/1000)
	}
	got := s.table([]contender{{name: "nsqd"}, {name: "brokerd"}})
	want := `| load | nsqd | brokerd | ratio |
|---|--:|--:|--:|
| e2e: ms | 20.0 | 0.20 | 0.01 |
| publish: messages/s | 200,000 | 500,000 | 2.50 |
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
