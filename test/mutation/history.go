package main

// historyMistakes concern undoing operators' changes of channels.
func historyMistakes() []mistake {
	here, all := []string{"./pkg/broker"}, []string{"./pkg/meta"}
	return []mistake{
		{
			name: "a restored channel is another one", file: "pkg/operate/history.go",
			old: "Filter: v.Filter, Version: v.Version})", with: "Filter: v.Filter})",
			tests: []string{"./pkg/broker"}, run: "TestRestoredChannelHasLongRequeuedMessages",
		},
		{
			name: "a restored channel has the version of the deleted one", file: "pkg/meta/commands_channel.go",
			old: "Version: Incarnation(s.index), Address: address,", with: "Version: cmp.Or(c.Version, Incarnation(s.index)), Address: address,",
			tests: []string{"./pkg/broker"}, run: "TestRestoredChannelHasItsOwnPositions",
		},
		{
			name: "a channel restored twice is not addressed as the first", file: "pkg/operate/history.go",
			old: "c.Version, c.Address", with: "c.Version, 0*c.Address",
			tests: []string{"./pkg/broker"}, run: "TestRestoredChannelHasLongRequeuedMessages",
		},
		{
			name: "history: what consumers finished since a move forward is repeated", file: "pkg/channel/history.go",
			old: "if target > floor {", with: "if false {", tests: []string{"./pkg/channel"}, run: "TestUndoIsExact",
		},
		{
			name: "history: what was finished out of order is forgotten", file: "pkg/channel/history.go",
			old: "[][]Range{finished, since}", with: "[][]Range{since}", tests: []string{"./pkg/channel"}, run: "TestUndoIsExact",
		},
		{
			name: "history: positions of one channel are kept without a bound", file: "pkg/meta/saved.go",
			old: "if same--; same >= maxSavedPerChannel-1 {", with: "if false {", tests: all, run: "SavedPositionsAreBounded",
		},
		{
			name: "history: positions are kept for ever", file: "pkg/meta/saved.go",
			old: "if fresh.At-v.At <= int64(savedFor) {", with: "if true {", tests: all, run: "SavedPositionsAreBounded",
		},
		{
			name: "history: an undo can be done twice", file: "pkg/operate/history.go",
			old: "_, err = o.host.Propose(ctx, meta.DropSaved{Saved: v.Index})", with: "err = nil", tests: here, run: "TestMoveIsStartedAndCancelled|TestOperatorsChannelMovesAreUndone",
		},
		{
			name: "history: a deletion saves nothing", file: "pkg/operate/history.go",
			old: "	return m.save(ctx, saved)\n}", with: "	_ = saved\n	return nil\n}", tests: here, run: "TestDeletedChannelIsRestoredAtItsPosition|TestDeletedChannelStaysDeletedAcrossFailOver|TestRecreatedChannelStartsAtEnd",
		},
		{
			name: "history: a skip may lead back", file: "pkg/operate/history.go",
			old: "if m.forward && p.Target < p.Floor {", with: "if false {", tests: here, run: "TestMoveIsStartedAndCancelled|TestOperatorsChannelMovesAreUndone",
		},
		{
			name: "history: what an undo needs is deleted", file: "pkg/commitlog/retain.go",
			old: "(r.Hold == nil || end <= *r.Hold) && ", with: "", tests: []string{"./pkg/commitlog"}, run: "TestIdleReaderHoldsNoLargeBatch|TestRetentionKeepsHeldSegments",
		},
	}
}
