package level

import "testing"

func TestFeatureExistsFromItsLevelOn(t *testing.T) {
	for l, want := range map[Level]bool{0: false, 1: false, 2: true, 3: true} {
		if got := l.Has(Feature{2}); got != want {
			t.Errorf("level %v has a feature of level 2: %v", l, got)
		}
	}
}

func TestRangeSupportsLevelsInside(t *testing.T) {
	for _, c := range []struct {
		r    Range
		l    Level
		want bool
		text string
	}{
		{Range{1, 2}, 0, false, "1 to 2"},
		{Range{1, 2}, 1, true, "1 to 2"},
		{Range{1, 2}, 2, true, "1 to 2"},
		{Range{1, 2}, 3, false, "1 to 2"},
		{Range{2, 2}, 2, true, "2"},
		{Range{}, 0, true, "0"},
		{Range{}, 1, false, "0"},
	} {
		if got := c.r.Supports(c.l); got != c.want || c.r.String() != c.text {
			t.Errorf("%v supports %v: %v, want %v and %q", c.r, c.l, got, c.want, c.text)
		}
	}
	if (Range{2, 1}).Valid() || !(Range{1, 1}).Valid() {
		t.Error("a range from 2 to 1 is valid, or one from 1 to 1 is not")
	}
}

func TestThisProgramSupportsItsFeatures(t *testing.T) {
	r := Supported()
	if !r.Valid() || !r.Supports(ForwardedPublisher.since) {
		t.Errorf("supports levels %v", r)
	}
}
