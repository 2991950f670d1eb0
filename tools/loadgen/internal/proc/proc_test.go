package proc

import (
	"os"
	"testing"
)

func TestStatCoversAllProcessors(t *testing.T) {
	const stat = "cpu  100 200 300 400 500 75 75 50 0 0\n" +
		"cpu0 50 100 150 200 250 30 35 40 0 0\ncpu1 50 100 150 200 250 30 35 40 0 0\nintr 12345 0\nctxt 7\n"
	want := Machine{User: 3, Sys: 3, Idle: 4, IOWait: 5, IRQ: 1.5, Steal: 0.5, processors: 2}
	if got := parseStat([]byte(stat)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestBusyIsAFractionOfAllProcessors(t *testing.T) {
	m, err := Start([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	u, all, err := m.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if all.Seconds <= 0 || all.processors == 0 || all.Busy > float64(all.processors)*all.Seconds {
		t.Errorf("%+v of %d processors", all, all.processors)
	}
	if u.RSSEndMB <= 0 {
		t.Errorf("%+v of this process", u)
	}
}
