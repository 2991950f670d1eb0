package main

// dropMistakes concern the rate of reading data that is dropped.
func dropMistakes() []mistake {
	return []mistake{
		{
			name: "drops: the rest of a body is read as fast as it comes", file: "pkg/server/conn.go",
			old: " || !drops.Wait(n, end)", with: "",
			tests: []string{"./pkg/server"}, run: "TestDroppedInputIsPaced|TestInputAfterFatalErrorIsDroppedInTurns",
		},
		{
			name: "drops: the rest of a body is read as fast as it comes over HTTP", file: "pkg/admin/web/body.go",
			old: " || !h.Drops.Wait(int(n), end)", with: "",
			tests: []string{"./pkg/admin/web"}, run: "TestDroppedBodyIsPaced",
		},
		{
			name: "drops: each has the whole rate", file: "pkg/limit/drops.go",
			old: "	d.used = d.used.Add(", with: "	d.used = now.Add(",
			tests: []string{"./pkg/limit"}, run: "TestDrops",
		},
	}
}

// boundMistakes concern the cost of filters and of trace queries, and what a filter skips.
func boundMistakes() []mistake {
	filter, trace := []string{"./pkg/filter"}, []string{"./pkg/trace"}
	return []mistake{
		{
			name: "a segment that cannot be read is never old", file: "pkg/commitlog/retain.go",
			old: "bool { return s.maxTime.Load() != noTime })", with: "bool { return true })",
			tests: []string{"./pkg/commitlog"}, run: "TestUnreadableSegmentAges",
		},
		{
			name: "a full disk keeps all segments that are finished", file: "pkg/commitlog/retain.go",
			old: "if retired != nil && !vfs.LacksRoom(retired) {", with: "if retired != nil {",
			tests: []string{"./pkg/commitlog"}, run: "OtherSegmentsFirst",
		},
		{
			name: "bounds: a regular expression is as large as it likes", file: "pkg/filter/patterns.go",
			old: "if p.wrong != nil {", with: "if false {", tests: filter, run: "InvalidExpressions",
		},
		{
			name: "bounds: a repetition counts one time", file: "pkg/filter/patterns.go",
			old: "if re.Op == syntax.OpRepeat {", with: "if false {", tests: filter, run: "InvalidExpressions",
		},
		{
			name: "bounds: all variables have a second name", file: "pkg/filter/rules.go",
			old: "n.Value == \"$env\"", with: "false", tests: filter, run: "InvalidExpressions",
		},
		{
			name: "bounds: what a filter leaves out of a key is finished here alone", file: "pkg/topic/consumer.go",
			old:  "!selected(k, &d) {\n\t\t\tk.undo.left = append(k.undo.left, t.Offset)",
			with: "!selected(k, &d) {\n\t\t\tk.undo.gone = append(k.undo.gone, t.Offset)", tests: []string{"./pkg/topic"}, run: "TestFilteredMessageOfAKeyIsFinishedForAll",
		},
		{
			name: "bounds: an answer about traces gathers all there is", file: "pkg/trace/find.go",
			old: "len(l.events) == 2*maxEvents", with: "false", tests: trace, run: "AnswerIsBounded",
		},
		{
			name: "bounds: empty files push out traces", file: "pkg/trace/store.go",
			old: "\tif empty {\n\t\ts.segments", with: "\tif false {\n\t\ts.segments", tests: trace, run: "TestLongDiskFailureKeepsStoredEvents",
		},
	}
}
