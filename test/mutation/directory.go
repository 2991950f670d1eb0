package main

// directoryMistakes are about where new topics go, and when they go.
func directoryMistakes() []mistake {
	tests := []string{"./pkg/directory"}
	return []mistake{
		{
			name: "a publish whose topic has an unknown outcome may be stored", file: "pkg/failure/kind.go",
			old: "k == Refusal || k.Data == fate.Uncertain {", with: "k == Refusal || k.Code == Uncertain {", tests: []string{"./pkg/failure"}, run: "TestOutermostKind",
		},
		{
			name: "a change during which the metadata leader changed counts as a defect", file: "pkg/failure/kinds.go",
			old: "69, \"metadata command outcome unknown\", Kind{\n\t\tWord: \"CHANGE_UNKNOWN\", Code: Unavailable", with: "69, \"metadata command outcome unknown\", Kind{\n\t\tWord: \"CHANGE_UNKNOWN\", Code: Uncertain",
			tests: []string{"./pkg/admin"}, run: "TestUnknownOutcome",
		},
		{
			name: "a topic waits for the removal of the one that it replaces", file: "pkg/host/converge.go",
			old: "\t\tif want == nil {\n\t\t\tc.held.deleted", with: "\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\tif want == nil {\n\t\t\tc.held.deleted", tests: tests, run: "TestTopicIsHosted",
		},
		{
			name: "directory: a publish to a topic that cannot be opened may be stored", file: "pkg/directory/directory.go",
			old: "return h, fate.Mark(err, fate.Refused)", with: "return h, err", tests: tests, run: "TestUseOfTopic",
		},
		{
			name: "a publish to a topic that cannot be created fails like a creation", file: "pkg/admin/nsqd/publish.go",
			old: "\t\treturn nil, nsqform.PublishError(err)\n\t}\n\tm := topic", with: "\t\treturn nil, err\n\t}\n\tm := topic", tests: []string{"./pkg/admin"}, run: "TestPublishToUncreated",
		},
		{
			name: "directory: a channel is not created while a leader is starting", file: "pkg/directory/leaders.go",
			old: "if Answered(err) && !passes(err) {", with: "if Answered(err) {", tests: []string{"./pkg/broker"}, run: "TestChannelWaitsForLeader",
		},
		{
			name: "directory: a channel is not created while a leadership moves", file: "pkg/directory/leaders.go",
			old: "flushed != nil && !passes(flushed) && ctx", with: "flushed != nil && ctx", tests: []string{"./pkg/broker"}, run: "TestChannelIsCreatedThough",
		},
		{
			name: "a restore takes a channel that was created meanwhile for its own", file: "pkg/meta/commands_channel.go",
			old: "if c.Version != 0 {\n\t\t\treturn fmt.Errorf(\"channel %s: %w\", c.Channel, failure.ChannelAgain)", with: "if false {\n\t\t\treturn fmt.Errorf(\"channel %s: %w\", c.Channel, failure.ChannelAgain)",
			tests: []string{"./pkg/meta"}, run: "TestScripts",
		},
		{
			name: "directory: a restore meets a channel that was created meanwhile", file: "pkg/directory/directory.go",
			old: "; c.Version == 0 && t != nil && t.Inc", with: "; t != nil && t.Inc", tests: []string{"./pkg/broker"}, run: "TestRestoreRefuses",
		},
		{
			name: "directory: a channel replaces a deleted one before every leader knows it", file: "pkg/directory/directory.go",
			old: "is && a.Restores != 0 {", with: "is && a.Restores != 0 && false {", tests: []string{"./pkg/broker"}, run: "TestReplacedChannelIsKnown",
		},
		{
			name: "directory: replicas go to nodes that are down though too few are up to publish", file: "pkg/directory/directory.go",
			old: "len(up) < minISR || ", with: "", tests: tests, run: "TestReplicasPreferNodesThatAreUp",
		},
		{
			name: "directory: an ephemeral topic goes with a channel left", file: "pkg/directory/directory.go",
			old: "if len(lp.Part.Channels()) > 0 {", with: "if len(lp.Part.Channels()) > 1 {", tests: tests, run: "TestEphemeralTopicIsDeletedWithLastChannel",
		},
		{
			name: "directory: a channel of an ordered topic has no order until it is consumed", file: "pkg/directory/plan.go",
			old: "if cfg.Ordered && !order.Some() {", with: "if false {", tests: tests, run: "ChannelsOfAnOrderedTopic",
		},
		{
			name: "directory: channels that the client did not ask for count as the client's", file: "pkg/directory/directory.go",
			old: "d.CreateChannel(limit.Uncounted(ctx), name, c, false)", with: "d.CreateChannel(ctx, name, c, false)", tests: tests, run: "TestAutoCreatedTopicGetsChannelsFromLookup",
		},
	}
}

// firstMistakes concern where channels start, and positions that are missing.
func firstMistakes() []mistake {
	return []mistake{
		{
			name: "the first channel skips what was published after the deletion of the one before", file: "pkg/topic/partition.go",
			old: "first = first && o.First && !c.ephemeral", with: "first = first && c == nil", tests: positionTests, run: "TestFirstChannelSkips",
		},
		{
			name: "a channel counts as the first one beside an ephemeral one", file: "pkg/topic/partition.go",
			old: "first = first && o.First && !c.ephemeral", with: "first = first && o.First && c != nil", tests: positionTests, run: "TestLaterChannel",
		},
		{
			name: "a channel counts as the first one beside durable ones", file: "pkg/topic/partition.go",
			old: "first = first && o.First && !c.ephemeral", with: "first = first && !c.ephemeral", tests: positionTests, run: "TestLaterChannel",
		},
		{
			name: "what deleted channels have finished is delivered to the next one", file: "pkg/topic/partition.go",
			old: "if len(p.channels) == 0 && !p.lost {", with: "if false {", tests: positionTests, run: "TestFirstChannelContinues",
		},
		{
			name: "a partition is not told which channel is the first", file: "pkg/host/roles.go",
			old: " First: c.First,", with: "", tests: []string{"./pkg/broker"}, run: "TestFirstChannelGets",
		},
		{
			name: "removed positions count as never stored", file: "pkg/topic/positions.go",
			old: "\t\tcase err == nil:\n\t\t\tfaults[0] =", with: "\t\tcase err == nil && false:\n\t\t\tfaults[0] =", tests: positionTests, run: "TestRemovedPositions",
		},
		{
			name: "the mark of stored positions is made before them", file: "pkg/topic/positions.go",
			old:  "\tf, err := p.fs.Create(unfinished)\n",
			with: "\t_, _ = p.fs.Create(filepath.Join(p.dir, positionsMark))\n\tf, err := p.fs.Create(unfinished)\n", tests: positionTests, run: "TestPowerCutDuringTheFirst",
		},
	}
}
