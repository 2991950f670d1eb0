package main

// tagMistakes are about consumers who want some messages only.
func tagMistakes() []mistake {
	return append(filterMistakes(), []mistake{
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
	}...)
}

// filterMistakes are about channels that get a part of the messages.
func filterMistakes() []mistake {
	pure, shell := []string{"./pkg/filter"}, []string{"./pkg/topic"}
	return []mistake{
		{
			name: "filter: ranges are allowed", file: "pkg/filter/rules.go",
			old: "	case \"..\":", with: "	case \"never\":",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: a publisher writes the regular expression", file: "pkg/filter/rules.go",
			old: "_, constant := n.Right.(*ast.StringNode); !constant", with: "_, constant := n.Right.(*ast.StringNode); !constant && false",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: texts are put together", file: "pkg/filter/rules.go",
			old: "if !numeric(n.Left) && !numeric(n.Right) {", with: "if false {",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: an expression has no bound", file: "pkg/filter/filter.go",
			old: "case len(text) > MaxText:", with: "case false:",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: what is delivered again is asked about again", file: "pkg/filter/selection.go",
			old: "|| m.Attempts > 1 && !c.filter.UsesAttempts() {", with: "{",
			tests: pure, run: "TestASelection",
		},
		{
			name: "filter: what is left out is not counted", file: "pkg/filter/selection.go",
			old: "		s.left.Add(1)\n", with: "",
			tests: pure, run: "TestASelection",
		},
		{
			name: "filter: it chooses everything", file: "pkg/topic/consumer.go",
			old: "if !k.ch.Selection.All() && !selected(k, &d) {", with: "if false {",
			tests: shell, run: "TestAChannelGetsWhat",
		},
		{
			name: "filter: what an operator sends is left out", file: "pkg/topic/tags.go",
			old: "if k.address != nil && !k.address.Moves {", with: "if false {",
			tests: shell, run: "TestAFilterSpares",
		},
		{
			name: "filter: a moved message passes", file: "pkg/topic/tags.go",
			old: "if k.address != nil && !k.address.Moves {", with: "if k.address != nil {",
			tests: shell, run: "TestAFilterSpares",
		},
		{
			name: "filter: leaving out goes on without an end", file: "pkg/topic/consumer.go",
			old: "if rounds == takeRounds {", with: "if false {",
			tests: shell, run: "TestLeavingOutMany",
		},
		{
			name: "filter: a broken one is ignored", file: "pkg/topic/consumer.go",
			old: "c.Selection.Broken() != nil || ", with: "",
			tests: shell, run: "TestABroken",
		},
		{
			name: "filter: dead letters are all chosen", file: "pkg/deadletter/redrive.go",
			old: "return o, s.Filter == nil || o.chosen(s.Filter, &seen.Message)", with: "return o, true",
			tests: []string{"./pkg/deadletter"}, run: "TestAFilterOfDeadLetters",
		},
	}
}
