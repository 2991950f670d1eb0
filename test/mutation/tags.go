package main

// tagMistakes are about consumers who want some messages only.
func tagMistakes() []mistake {
	return []mistake{
		{
			name: "messages of other lots are delivered", file: "pkg/topic/tags.go",
			old: "return lot, lot == k.tags.Of(k.o.Tag)", with: "return lot, true",
			tests: []string{"./pkg/topic"}, run: "TestABusyTaggedConsumer",
		},
		{
			name: "nobody is woken for what was sorted", file: "pkg/topic/tags.go",
			old: "return m.lot == lot })", with: "return m.lot != lot })",
			tests: []string{"./pkg/topic"}, run: "TestAConsumerIsWokenForMessages",
		},
		{
			name: "what waits for a tag is lost to others when nobody asks for it", file: "pkg/topic/tags.go",
			old: "	channel.SortingOf(c.state).Merge()\n", with: "",
			tests: []string{"./pkg/topic"}, run: "TestATagThatNobody",
		},
		{
			name: "a sample leaves out what is another's", file: "pkg/topic/consumer.go",
			old: "if len(k.tags) == 0 && !sampled(", with: "if !sampled(",
			tests: []string{"./pkg/topic"}, run: "TestWhatAFilter",
		},
		{
			name: "filters choose everything", file: "pkg/topic/consumer.go",
			old: " || !k.o.Filter.Match(d.Header) {", with: " {",
			tests: []string{"./pkg/topic"}, run: "TestWhatAFilter",
		},
		{
			name: "the wish for a tag does not reach the leader", file: "pkg/consume/subscribe.go",
			old: "Tag: s.ask.Tag, Filter:", with: "Tag: \"\", Filter:",
			tests: []string{"./pkg/broker"}, run: "TestAConsumerElsewhere",
		},
		{
			name: "sorting has no bound", file: "pkg/channel/lots.go",
			old: "l.s.lot != 0 && l.Len() >= MaxSorted", with: "false",
			tests: []string{"./pkg/channel"}, run: "TestSortingIsBounded",
		},
		{
			name: "an ordered channel goes past the message of another lot", file: "pkg/channel/state.go",
			old: "|| m.due != 0 && Lot(m.due) != s.lot {", with: "{",
			tests: []string{"./pkg/channel"}, run: "TestAnOrderedChannelWaits",
		},
	}
}
