package trace

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// BenchmarkStep records the deliveries and finishes of a hundred messages by one consumer.
func BenchmarkStep(b *testing.B) {
	rule, err := sampling.ParseRule("on")
	if err != nil {
		b.Fatal(err)
	}
	s := Open(Options{FS: vfs.NewMem(), Dir: "trace"})
	p := Source{Store: s, Incarnation: 1}.Under(rule)
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		for _, what := range []What{Delivered, Finished} {
			for o := range seq.Offset(100) {
				p.Step(&Step{What: what, Offset: o, Channel: "a-channel", Client: "consumer@host", At: at})
			}
		}
	}
}
