package main

// breathMistakes are about loops that leave their processor, and blocks that are not grown.
func breathMistakes() []mistake {
	limits := []string{"./pkg/limit"}
	return []mistake{
		{
			name: "breaths: a long loop keeps its processor", file: "pkg/limit/breath.go",
			old: "if now.Sub(b.since) >= breathAfter {", with: "if now.Before(b.since) {", tests: limits, run: "Processor",
		},
		{
			name: "breaths: a short loop leaves its processor", file: "pkg/limit/breath.go",
			old: "if now.Sub(b.since) >= breathAfter {", with: "if !now.Before(b.since) {", tests: limits, run: "Processor",
		},
		{
			name: "breaths: who passes a turn on keeps its processor", file: "pkg/limit/turns.go",
			old: "now-t.rested.Load() >= int64(breathAfter)", with: "now < t.rested.Load()", tests: limits, run: "Processor",
		},
		{
			name: "breaths: reserved memory is too small", file: "pkg/commitlog/builder.go",
			old: "align(start+max(n, start))", with: "align(start+max(n/2, start))", tests: []string{"./pkg/commitlog"}, run: "Reserved",
		},
		{
			name: "breaths: a batch is copied whole for every entry", file: "pkg/commitlog/builder.go",
			old: "align(start+max(n, start))", with: "align(start+n)", tests: []string{"./pkg/commitlog"}, run: "Reserv",
		},
	}
}
