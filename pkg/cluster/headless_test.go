package cluster

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A node that has lost its majority says so once, with who does not answer, and says when
// there is a leader again. An election in the ordinary course is no news.
func TestTheLackOfALeaderIsToldOnce(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		told := &logged{} // by n1
		w.options = func(name string, o *Options) {
			if name == "n1" {
				o.Logger = slog.New(slog.NewTextHandler(told, nil))
			}
		}
		w.start(three...)
		w.formed(3, 3)
		lines := func(text string) int { return strings.Count(told.String(), text) }
		const without, again = "no metadata leader", "metadata has a leader again"
		_ = w.kill("n3")
		w.sleep(20 * time.Second)
		w.start("n3")
		w.formed(3, 3)
		if lines(without) > 0 || lines(again) > 0 {
			t.Errorf("a majority was there all the time:\n%s", told)
		}
		_, _ = w.kill("n2"), w.kill("n3")
		w.sleep(2 * time.Minute)
		if lines(without) != 1 || lines("[n2 n3]") != 1 || lines("lection timeout") > 0 {
			t.Errorf("two minutes without a majority:\n%s", told)
		}
		w.start("n2")
		w.sleep(20 * time.Second)
		if lines(without) != 1 || lines(again) != 1 {
			t.Errorf("with a majority again:\n%s", told)
		}
		_ = w.kill("n2")
		w.sleep(time.Minute)
		if lines(without) != 2 {
			t.Errorf("without it for the second time:\n%s", told)
		}
	})
}
