package main

// clientMistakes concern what the Go client reports about publishes.
func clientMistakes() []mistake {
	tests := []string{"./pkg/client"}
	return []mistake{
		{
			name: "client: a token is sent as plain text to a lookup", file: "pkg/client/lookup.go",
			old: "(c.tls == nil || strings.HasPrefix(lookup, \"https://\"))", with: "(c.tls == nil || lookup != \"\")",
			tests: []string{"./pkg/client"}, run: "TestTokenIsNotSentAsPlainText",
		},
		{
			name: "client: what is uncertain is sent again", file: "pkg/client/client.go",
			old: "v.again && (v.refused || k.deduplicated())", with: "v.again",
			tests: tests, run: "TestUncertainPublishIsNotSentAgain",
		},
		{
			name: "client: with ids what is uncertain is given up", file: "pkg/client/client.go",
			old: "v.again && (v.refused || k.deduplicated())", with: "v.again && v.refused",
			tests: tests, run: "TestUncertainPublishWithIDIsRetried",
		},
		{
			name: "client: a refusal after an uncertain attempt counts", file: "pkg/client/call.go",
			old: "if refused && !c.tainted {", with: "if refused {",
			tests: tests, run: "TestUncertainAttemptStaysUncertain",
		},
		{
			name: "client: what was sent when a connection ends is sent again", file: "pkg/client/conn.go",
			old: "if i >= sent {", with: "if i >= 0*sent {",
			tests: tests, run: "TestUncertainPublishIsNotSentAgain",
		},
		{
			name: "client: what was never sent is lost with its connection", file: "pkg/client/conn.go",
			old: "if i >= sent {", with: "if i > 1<<20+sent {",
			tests: tests, run: "TestUnsentPublishGoesToNextConnection",
		},
		{
			name: "client: what stands behind a broker's last words is lost", file: "pkg/client/conn.go",
			old: "if cn.deaf {", with: "if false && cn.deaf {",
			tests: tests, run: "TestNothingIsExecutedAfterFatalError",
		},
		{
			name: "client: a publish that a context ended is refused", file: "pkg/client/call.go",
			old: "case c.state.CompareAndSwap(callOnWire, callAbandoned):\n\t\t\treturn ErrUncertain", with: "case c.state.CompareAndSwap(callOnWire, callAbandoned):\n\t\t\treturn ErrRefused",
			tests: tests, run: "TestContextEndsPublishWithItsOutcome",
		},
		{
			name: "client: bytes under way have no bound", file: "pkg/client/budget.go",
			old: "if len(b.waiting) > 0 || b.used+n > b.max {", with: "if b.max < 0 {",
			tests: tests, run: "TestBytesInFlight",
		},
		{
			name: "client: the messages of a batch share an id", file: "pkg/client/client.go",
			old: "return count.Add(uint64(n)) - uint64(n)", with: "return count.Add(1) - uint64(n)*0 - 1",
			tests: tests, run: "TestEachMessageHasItsOwnID",
		},
	}
}

// consumerMistakes concern how the Go client handles received messages.
func consumerMistakes() []mistake {
	tests := []string{"./pkg/client"}
	return []mistake{
		{
			name: "client: credit that is held is given to another connection", file: "pkg/client/credit.go",
			old: "		free -= n\n", with: "		free -= 0 * n\n",
			tests: tests, run: "TestHeldMessageKeepsItsCredit",
		},
		{
			name: "client: a connection without messages keeps its turn", file: "pkg/client/credit.go",
			old: "	case c.scarce:\n", with: "	case false:\n",
			tests: tests, run: "TestSmallInFlightLimitFollowsMessages",
		},
		{
			name: "client: a message does not wait for the one before it of its key", file: "pkg/client/lanes.go",
			old: "if others, busy := l.behind[w.key]; busy {", with: "if others, busy := l.behind[w.key]; busy && others != nil {",
			tests: tests, run: "TestMessagesOfAKeyAreHandledInOrder",
		},
		{
			name: "client: what was delivered again meanwhile is requeued", file: "pkg/client/lanes.go",
			old: "return !x.cfg.autoTouch && timeout > 0 &&", with: "return false &&",
			tests: tests, run: "TestMessagesWaitingForKeyAreRequeuedAtClose",
		},
		{
			name: "client: a consumer that leaves keeps messages that no handler was given", file: "pkg/client/consumer.go",
			old: "case m := <-x.arrivals:\n\t\t\tgiveBack(m)\n", with: "case <-x.arrivals:\n",
			tests: tests, run: "TestConsumerClosesCleanly",
		},
		{
			name: "client: a consumer says goodbye before its handlers are done", file: "pkg/client/consumer.go",
			old: "case <-x.empty:\n", with: "case <-x.leaving:\n",
			tests: tests, run: "TestConsumerClosesCleanly",
		},
		{
			name: "client: a failing consumer goes on as before", file: "pkg/client/throttle.go",
			old: "t.level++\n", with: "",
			tests: tests, run: "TestThrottle|TestConsumerBacksOff",
		},
		{
			name: "client: a silent broker is waited for", file: "pkg/client/handshake.go",
			old: "timeout: silentHeartbeats * cfg.heartbeat,", with: "timeout: 1000 * silentHeartbeats * cfg.heartbeat,",
			tests: tests, run: "TestSilentBroker",
		},
	}
}

// lookupMistakes concern how consumers of the Go client find nodes.
func lookupMistakes() []mistake {
	tests := []string{"./pkg/client"}
	return []mistake{
		{
			name: "client: a consumer whose node is replaced waits for the next refresh", file: "pkg/client/consumer.go",
			old: "		wake(x.wake) // other nodes may have replaced it\n", with: "",
			tests: tests, run: "TestConsumerFollowsLookup",
		},
		{
			name: "client: a consumer gives up its node because no lookup answers", file: "pkg/client/consumer.go",
			old: "named, err := x.nodes(); err == nil && !slices", with: "named, _ := x.nodes(); !slices",
			tests: tests, run: "TestConsumerFollowsLookup",
		},
		{
			name: "client: a lookup that fails is asked at the next refresh", file: "pkg/client/consumer.go",
			old: "			next = min(next, pause(x.client.cfg, failures, rand.Float64()))\n", with: "",
			tests: tests, run: "TestConsumerStartsBeforeItsLookup",
		},
		{
			name: "client: a lookup that hangs is waited for", file: "pkg/client/lookup.go",
			old: "time.AfterFunc(slowLookup, cancel)", with: "time.AfterFunc(1000*slowLookup, cancel)",
			tests: tests, run: "TestHangingLookupDoesNotHideTheOthers",
		},
		{
			name: "client: a message is taken after the context has ended", file: "pkg/client/consumer.go",
			old: "for ctx.Err() == nil && x.ctx.Err() == nil && !closed(x.leaving) {", with: "for x != nil {",
			tests: tests, run: "TestNoMessageIsTakenAfterTheContextEnds",
		},
	}
}
