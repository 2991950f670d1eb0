package main

// leaseMistakes concern the right to deliver.
func leaseMistakes() []mistake {
	const lease = "pkg/lease/lease.go"
	tests := []string{"./pkg/broker"}
	return []mistake{
		{
			name: "unseen: what a client at a distance does not want any more counts as an attempt", file: "pkg/consume/relaysource.go",
			old: "\t\t\tunseen = append(unseen, a.ID)\n", with: "\t\t\t_ = sub.Requeue(a.ID, 0)\n",
			tests: tests, run: "TestUnseenDeliveryDoesNotCount",
		},
		{
			name: "unseen: what is on its way to a client that leaves counts as an attempt", file: "pkg/consume/relaysource.go",
			old: "\tfd.gone = &m\n", with: "",
			tests: tests, run: "TestUnseenDeliveryDoesNotCount",
		},
		{
			name: "unseen: what comes for a client that wants nothing stays", file: "pkg/relay/relay.go",
			old: "unwanted := r.resting || r.retiring", with: "unwanted := false",
			tests: tests, run: "TestUnseenDeliveryDoesNotCount",
		},
		{
			name: "unseen: what a client has is taken for unseen", file: "pkg/relay/relay.go",
			old: "slices.Collect(maps.Keys(r.here.inFlight.all))", with: "slices.Collect(maps.Keys(flights{}.all))",
			tests: tests, run: "TestUnseenDeliveryDoesNotCount",
		},
		{
			name: "unseen: what a client answered is taken for unseen", file: "pkg/relay/relay.go",
			old: "\t\t\tseen = append(seen, a.ID)\n", with: "",
			tests: tests, run: "TestSeenDeliveryCounts",
		},
		{
			name: "LeaseEnds: a lease has no end", file: lease,
			old: "return int64(now.Sub(l.base)) <= l.until.Load() && !l.ended.Load()", with: "return l.until.Load() != never && !l.ended.Load()",
			tests: []string{"./pkg/lease"}, run: "Lease",
		},
		{
			name: "LeaseBegins: contact with the metadata begins a lease", file: lease,
			old: "\tl.until.Store(never)\n\tl.from", with: "\tl.until.Store(0)\n\tl.from",
			tests: []string{"./pkg/lease"}, run: "TestLeaseHoldsForItsSpan",
		},
		{
			name: "LeaseBegins: a lease goes on over a gap", file: lease,
			old: " && int64(since.Sub(l.base)) <= until {", with: " {\n\t\t_ = since",
			tests: []string{"./pkg/lease"}, run: "Lease",
		},
		{
			name: "LeaseNeedsJoiner: a joiner is not asked", file: "pkg/coord/membership.go",
			old: "if m.tracker.Counts(f.node) && f.holds.At.Before(now) {", with: "if slices.Contains(m.view.ISR, f.node) && f.holds.At.Before(now) {",
			tests: []string{"./pkg/coord"},
		},
		{
			name: "LeaseAskedLast: a lease is not asked before a message leaves", file: "pkg/consume/deliverable.go",
			old: "if k.gone.Load() || !k.Leased(now) {", with: "if k.gone.Load() {",
			tests: tests, run: "TestTakenMessagesAreUndeliverableAfterLease",
		},
		{
			name: "RelayBeginsAnew: a pause is not noticed", file: "pkg/lease/pulse.go",
			old: "return p.gaps.Load() == s.gaps", with: "return true",
			tests: tests, run: "TestRelayedMessagesAreUndeliverableAfterPause",
		},
	}
}
