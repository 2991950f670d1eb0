package main

// policyMistakes concern the effective policy for failing messages.
func policyMistakes() []mistake {
	return []mistake{
		{
			name: "policy: a message is delivered once more than allowed", file: "pkg/policy/policy.go",
			old: "p.MaxAttempts > 0 && int(attempts) >= p.MaxAttempts", with: "p.MaxAttempts > 0 && int(attempts) > p.MaxAttempts",
			tests: []string{"./pkg/policy"}, run: "Exhausted",
		},
		{
			name: "policy: the topic counts before the channel", file: "pkg/policy/policy.go",
			old: "cmp.Or(p.MaxAttempts, l.MaxAttempts)", with: "cmp.Or(l.MaxAttempts, p.MaxAttempts)",
			tests: []string{"./pkg/policy"}, run: "Nearest",
		},
		{
			name: "policy: messages that failed together come back together", file: "pkg/policy/backoff.go",
			old: "least + time.Duration(mix(seed+uint64(attempts))%uint64(full-least+1))", with: "least + full - least",
			tests: []string{"./pkg/policy"}, run: "Backoff",
		},
		{
			name: "policy: a bucket fills without a bound", file: "pkg/policy/bucket.go",
			old: "b.tokens = min(b.tokens+passed.Seconds()*b.perSecond, b.room(b.perSecond))", with: "b.tokens += passed.Seconds() * b.perSecond",
			tests: []string{"./pkg/policy"}, run: "Bucket",
		},
		{
			name: "policy: dead-letter topics take the cluster's defaults", file: "pkg/meta/policy.go",
			old: "if strings.HasSuffix(t.Name, policy.DeadLetterSuffix) {", with: "if strings.HasSuffix(t.Name, policy.DeadLetterSuffix) && false {",
			tests: []string{"./pkg/meta"}, run: "DeadLetter",
		},
		{
			name: "policy: dead letters go to their own topic", file: "pkg/meta/policy.go",
			old: "case name == t.Name:", with: "case false:",
			tests: []string{"./pkg/meta"}, run: "DeadLetter",
		},
	}
}

// exhaustedMistakes are about attempts, backoff and rates of a channel.
func exhaustedMistakes() []mistake {
	state, shell := []string{"./pkg/channel"}, []string{"./pkg/topic"}
	return []mistake{
		{
			name: "exhausted: a message that times out is ready again", file: "pkg/channel/ledger.go",
			old: "if l.retries.spend(l.t, slot) || bar", with: "if bar",
			tests: state, run: "Model",
		},
		{
			name: "exhausted: a lower bound leaves what waits", file: "pkg/channel/retry.go",
			old: "held && !p.Exhausts(m.attempts) || waits && p.Exhausts(m.attempts)", with: "held && !p.Exhausts(m.attempts) || waits && false",
			tests: state, run: "Model",
		},
		{
			name: "exhausted: a restart forgets them", file: "pkg/channel/position.go",
			old: "case inFlight, ready, spent, lapsed, barred:", with: "case inFlight, ready, barred:",
			tests: state, run: "Model",
		},
		{
			name: "expired: what a disposer keeps is delivered", file: "pkg/channel/retry.go",
			old: "if x.Expired {", with: "if false {",
			tests: state, run: "Model|Expire",
		},
		{
			name: "expired: a message that is not sent has been delivered", file: "pkg/channel/retry.go",
			old: "s.untake(slot)\n\ts.retries.lapse", with: "s.leave(slot)\n\ts.retries.lapse",
			tests: state, run: "Model|Expire",
		},
		{
			name: "exhausted: a backoff is deferred without being counted", file: "pkg/channel/retry.go",
			old: "s.retries.backOff(s.t, slot)", with: "_ = slot",
			tests: state, run: "Model",
		},
		{
			name: "exhausted: attempts are not noted before the next delivery", file: "pkg/topic/exhausted.go",
			old: "if err := r.Park(o, id, now, FinTimeout); err != nil {", with: "if err := c.state.Requeue(o, id, now, delay); err != nil {",
			tests: shell, run: "TestAttemptsSurviveAFailOver|TestAttemptsSurviveAKill|TestDisposerTakesExhaustedMessages",
		},
		{
			name: "exhausted: attempts are not sent to followers", file: "pkg/topic/exhausted.go",
			old: "err := c.p.appendChange(data)", with: "err := c.p.appendChange(nil)",
			tests: shell, run: "AttemptsSurviveAKill",
		},
		{
			name: "exhausted: a change of attempts finishes the message", file: "pkg/topic/standby.go",
			old: "if a.Attempts > 0 {", with: "if false {",
			tests: shell, run: "TestAttemptsSurviveAFailOver|TestAttemptsSurviveAKill|TestDisposerTakesExhaustedMessages",
		},
		{
			name: "rate: what is not used is lost", file: "pkg/topic/consumer.go",
			old: "defer func() { limit.Return(max - len(k.taken)) }()", with: "defer func() {}()",
			tests: shell, run: "TestDeliveryRateIsKept|TestRateCountsOnlyDeliveredMessages",
		},
		{
			name: "rate: every leader delivers all of it", file: "pkg/policy/rates.go",
			old: "r.share = float64(max(led, 1)) / float64(max(partitions, led, 1))", with: "r.share = 1",
			tests: shell, run: "TestDeliveryRateIsKept|TestRateCountsOnlyDeliveredMessages",
		},
	}
}

// attemptMistakes are about how often a message was delivered, at the next leader.
func attemptMistakes() []mistake {
	shell := []string{"./pkg/topic"}
	return []mistake{
		{
			name: "exhausted: a follower forgets attempts", file: "pkg/topic/standby.go",
			old: "\t\t\tc.Position.Attempt(a.Offset, a.Attempts)\n", with: "",
			tests: shell, run: "AttemptsSurviveAFailOver",
		},
		{
			name: "exhausted: a leader keeps attempts to itself", file: "pkg/topic/exhausted.go",
			old: "\tif err == nil && c.p.sharing.Shared() {\n\t\tc.p.sharing.Advance(sharing.Change{Data: data, Done: resume})", with: "\tif false {",
			tests: shell, run: "AttemptsSurviveAFailOver",
		},
		{
			name: "exhausted: a new leader begins attempts anew", file: "pkg/channel/state.go",
			old: "for _, a := range p.Attempted {", with: "for _, a := range p.Attempted[:0] {",
			tests: shell, run: "AttemptsSurviveAFailOver",
		},
	}
}

// letterMistakes are about dead letters, there and back.
func letterMistakes() []mistake {
	broker := []string{"./pkg/broker"}
	const letters = "Attempts|DeadLetter|Shared|Defaults"
	return []mistake{
		{
			name: "dead letter: it is finished before it is acknowledged", file: "pkg/deadletter/worker.go",
			old: "if err := answerOf(ctx, answers[i]); err != nil {", with: "if err := answerOf(ctx, answers[i]); err != nil && false {",
			tests: broker, run: letters,
		},
		{
			name: "dead letter: it goes round for ever", file: "pkg/deadletter/worker.go",
			old: "o.Earlier = before.Earlier + 1", with: "o.Earlier = before.Earlier",
			tests: []string{"./pkg/broker"}, run: "GoRoundForEver",
		},
		{
			name: "dead letter: it has no dedup id", file: "pkg/deadletter/worker.go",
			old: "Key: e.Key, Dedup: s.dedupID(e)}", with: "Key: e.Key}", tests: broker, run: "FailsAgain",
		},
		{
			name: "dead letter: one that comes back does not count", file: "pkg/deadletter/worker.go",
			old: "{e.Version, e.Moves, uint64(s.Partition)", with: "{e.Version, 0, uint64(s.Partition)", tests: broker, run: "FailsAgain",
		},
		{
			name: "redrive: a letter that is refused is finished", file: "pkg/deadletter/redrive.go",
			old: "if e := answerOf(ctx, answers[i]); e != nil {", with: "if e := answerOf(ctx, answers[i]); e != nil && false {",
			tests: broker, run: letters,
		},
		{
			name: "redrive: it takes letters of other channels", file: "pkg/deadletter/redrive.go",
			old: "if err != nil || o.Topic != s.Topic || o.Channel != s.Channel {", with: "if err != nil {",
			tests: broker, run: letters,
		},
		{
			name: "redrive: all channels get it", file: "pkg/deadletter/worker.go",
			old: "Address: &topic.Address{Channel: to,", with: "Address: &topic.Address{Channel: 0*to,",
			tests: broker, run: letters,
		},
		{
			name: "redrive: letters are not finished", file: "pkg/deadletter/redrive.go",
			old: "if e := topic.Move(c, func(s *channel.State) { s.Skip(from, end) }); e != nil {", with: "if e := error(nil); e != nil {",
			tests: broker, run: letters,
		},
	}
}
