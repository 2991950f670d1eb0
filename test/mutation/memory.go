package main

// memoryMistakes are about the budget of what clients make a node hold.
func memoryMistakes() []mistake {
	return []mistake{
		{
			name: "big shares take the whole budget", file: "pkg/limit/memory.go",
			old: "const bulkQuarters = 3", with: "const bulkQuarters = 4",
			tests: []string{"./pkg/limit"}, run: "TestBigShares",
		},
		{
			name: "a refused take leaves its place in the line", file: "pkg/limit/memory.go",
			old: "m.grantLocked() // those behind it may want less\n\t\t\treturn ErrNoMemory", with: "return nil",
			tests: []string{"./pkg/limit"}, run: "TestTakeIsRefused",
		},
		{
			name: "the list of a batch's messages costs nothing", file: "pkg/server/publish.go",
			old: "if room > keepMessages {", with: "if room > 1<<30 {",
			tests: []string{"./pkg/server"}, run: "TestManyMessagesAreChargedForEach",
		},
		{
			name: "an ephemeral topic is not bounded at append", file: "pkg/broker/ephemeral.go",
			old: "if stored+int64(n) > 2*e.most {", with: "if stored+int64(n) > 200*e.most {",
			tests: []string{"./pkg/broker"}, run: "TestAnEphemeralTopicIsBounded",
		},
		{
			name: "a peek costs nothing", file: "pkg/admin/v1messages.go",
			old: "share.Take(r.Context(), peekGrowth*(peekBytes+v.publishing.limits.MaxMessage))", with: "share.Take(r.Context(), 0)",
			tests: []string{"./pkg/admin"}, run: "TestListsAndPeeks",
		},
	}
}
