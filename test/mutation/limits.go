package main

import "slices"

// mistakesOfLimits are those about limits that have a list of their own.
func mistakesOfLimits() []mistake {
	return slices.Concat(
		creditMistakes(),
		catchUpMistakes(),
		edgeMistakes(),
		quotaMistakes(),
		heapMistakes(), memoryMistakes(),
		laggingMistakes(),
		turnMistakes(),
		burstMistakes(),
		threadMistakes(),
		directMistakes(),
		restartMistakes(), onDiskMistakes(),
		explainMistakes(),
		policyMistakes(),
		exhaustedMistakes(), attemptMistakes(),
		letterMistakes(),
		flowMistakes(),
		historyMistakes(),
		deferralMistakes(),
		trashMistakes(),
		upgradeMistakes(),
		purgeMistakes(),
		accessMistakes(),
		journalMistakes(),
		headlessMistakes(),
		raftMistakes(),
		directoryMistakes(),
		recoveryMistakes(),
		creationMistakes(),
		strangerMistakes(),
		clientMistakes(), consumerMistakes(),
	)
}

// limitMistakes are about formats and limits.
func limitMistakes() []mistake {
	return append(mistakesOfLimits(), []mistake{
		{
			name: "a publish whose fate is not known is sent again", file: "pkg/publish/queued.go",
			old: "if !arrived && fate.Of(err) == fate.Refused && ", with: "if !arrived && ",
			tests: []string{"./pkg/broker"}, run: "TestUncertainPublishIsNotSentAgain",
		},
		{
			name: "a size that no number holds is taken", file: "pkg/units/units.go",
			old: "if n > (math.MaxInt64-more)/worth {", with: "if n < 0 {",
			tests: []string{"./pkg/units"},
		},
		{
			name: "a unit is believed by its first letter", file: "pkg/units/units.go",
			old: "if strings.EqualFold(name, u.name) {", with: "if strings.EqualFold(name[:1], u.name[:1]) {",
			tests: []string{"./pkg/units"},
		},
		{
			name: "durations add up beyond the largest", file: "pkg/units/units.go",
			old: " || err == nil && n > math.MaxInt64-total:", with: ":",
			tests: []string{"./pkg/units"},
		},
		{
			name: "the checksum of a checkpoint is not compared", file: "pkg/commitlog/checkpoint.go",
			old: " || le.Uint32(p[8:]) != checksum(p[12:]) {", with: " {",
			tests: []string{"./pkg/commitlog"},
		},
		{
			name: "the answers that a connection is owed are not bounded by bytes", file: "pkg/server/answers.go",
			old: " || q.bytes+a.bytes > q.maxBytes) {", with: ") {",
			tests: []string{"./pkg/server"},
		},
		{
			name: "the answers that a connection is owed are not bounded by number", file: "pkg/server/answers.go",
			old: "(q.n >= q.maxCount || q.bytes", with: "(q.bytes",
			tests: []string{"./pkg/server"},
		},
		{
			name: "a message of the largest size is refused", file: "pkg/server/publish.go",
			old: "case int(size) > p.link.srv.opts.MaxMessageBytes:", with: "case int(size) >= p.link.srv.opts.MaxMessageBytes:",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a message one byte too large is taken", file: "pkg/server/publish.go",
			old: "case int(size) > p.link.srv.opts.MaxMessageBytes:", with: "case int(size) > p.link.srv.opts.MaxMessageBytes+1:",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a body of the largest size is refused", file: "pkg/server/publish.go",
			old: "\tcase int(size) > max:\n", with: "\tcase int(size) >= max:\n",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a body one byte too large is taken", file: "pkg/server/publish.go",
			old: "\tcase int(size) > max:\n", with: "\tcase int(size) > max+1:\n",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
	}...)
}

// creditMistakes concern the unanswered data between two nodes.
func creditMistakes() []mistake {
	const file = "pkg/coord/replication/credit.go"
	return []mistake{
		{
			name: "zeros are written ahead of large synced appends", file: "pkg/commitlog/fill.go",
			old: "maxFillSync = 8 << 10", with: "maxFillSync = 32 << 10", tests: []string{"./pkg/commitlog"}, run: "WrittenTwice",
		},
		{
			name: "credit: replicators send without a common limit", file: file,
			old: "return s.credit.used+creditShare*s.held < s.credit.limit", with: "return true",
			tests: replicationTests,
		},
		{
			name: "credit: one replicator may hold all of it", file: file,
			old: "s.credit.used+creditShare*s.held <", with: "s.credit.used <",
			tests: replicationTests,
		},
		{
			name: "credit: those in line hold what others wait for", file: file,
			old: "\ts.releaseLocked() // those in line hold nothing that others wait for\n", with: "",
			tests: replicationTests,
		},
		{
			name: "credit: a sender in line is not woken", file: file,
			old: "\t\t\tgo s.wake()\n", with: "",
			tests: replicationTests,
		},
		{
			name: "credit: what was reserved and not needed stays", file: replicatorFile,
			old: "\t\tr.out.cancel() // there is nothing else to send\n", with: "",
			tests: replicationTests,
		},
		{
			name: "credit: a request that carries little counts for nothing", file: "pkg/limit/limit.go",
			old: "s.Request = max(64, s.Pair/maxRequests)", with: "s.Request = 64",
			tests: []string{"./pkg/peer"}, run: "TestConnectionAcceptsAllReplicatorTraffic",
		},
		{
			name: "credit: an answer of an earlier session gives nothing back", file: replicatorFile,
			old:   "\t\tr.out.giveBack(size)\n\t\tr.copy.answered(r.o.Now, copied)\n\t\ta, decodeErr := decodeAnswer(reply)\n\t\tr.mu.Lock()\n\t\tif session != r.session || r.stopped {\n\t\t\tr.mu.Unlock()\n\t\t\treturn\n\t\t}\n",
			with:  "\t\tr.copy.answered(r.o.Now, copied)\n\t\ta, decodeErr := decodeAnswer(reply)\n\t\tr.mu.Lock()\n\t\tif session != r.session || r.stopped {\n\t\t\tr.mu.Unlock()\n\t\t\treturn\n\t\t}\n\t\tr.out.giveBack(size)\n",
			tests: replicationTests,
		},
		{
			name: "credit: a stopped replicator stays in line", file: replicatorFile,
			old: "\tr.copy.cancel()\n\tr.out.cancel()\n", with: "\tr.copy.cancel()\n",
			tests: replicationTests,
		},
		{
			name: "credit: each partition has its own", file: "pkg/coord/follower.go",
			old: "Credit: t.o.Credits.To(n), ", with: "",
			tests: []string{"./pkg/coord"}, run: "TestTermsOfANodeShareTheCredit",
		},
		{
			name: "a connection has no room for the frame by which replicators exceed their limit", file: "pkg/peer/options.go",
			old: "return o.MaxQueuedBytes + o.MaxFrame", with: "return o.MaxQueuedBytes",
			tests: []string{"./pkg/peer"}, run: "TestConnectionAcceptsAllReplicatorTraffic",
		},
	}
}

// edgeMistakes concern requests from web pages, and bursts.
func edgeMistakes() []mistake {
	web := []string{"./pkg/admin"}
	return []mistake{
		{
			name: "one address takes all connections", file: "cmd/brokerd/connlimits.go",
			old: `key != "" && c.of[key] >= c.maxAddress`, with: `key == "" && c.of[key] >= c.maxAddress`,
			tests: []string{"./cmd/brokerd"}, run: "TestNoAddressTakesAllConnections",
		},
		{
			name: "NSQ clients leave no connection for probes", file: "cmd/brokerd/connlimits.go",
			old: "return &boundListener{l, c, c.maxNSQ}", with: "return &boundListener{l, c, c.max}",
			tests: []string{"./cmd/brokerd"}, run: "ProbesAreAnswered",
		},
		{
			name: "each fault of a client is a line", file: "internal/complaint/complaint.go",
			old: "now.Sub(k.loggedAt) < every", with: "now.Sub(k.loggedAt) > every",
			tests: []string{"./internal/complaint"}, run: "FillTheLog",
		},
		{
			name: "a client writes lines of its own into the log", file: "internal/complaint/complaint.go",
			old: "if r == utf8.RuneError || !unicode.IsPrint(r) {", with: "if r == utf8.RuneError && !unicode.IsPrint(r) {",
			tests: []string{"./internal/complaint"}, run: "TestClientTextIsTruncatedToOneLine",
		},
		{
			name: "a bad client of the lookup daemon is a line each time", file: "internal/lookupd/server.go",
			old: `srv.complaints.Warn(srv.Log, time.Now(), "refused a command of a producer; its connection is closed",`, with: `srv.Log.Warn("refused a command of a producer; its connection is closed",`,
			tests: []string{"./internal/lookupd"}, run: "FillTheLog",
		},
		{
			name: "a host that ends like an allowed one is answered", file: "pkg/admin/web/hosts.go",
			old: `return strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix)`, with: `return strings.HasSuffix(host, suffix)`,
			tests: web, run: "TestOnlyOwnHostNamesAreAnswered",
		},
		{
			name: "the lookup daemon answers to every name", file: "cmd/brokerd/nsqlookupd.go",
			old: "own := web.NewHosts(slices.Concat(", with: "own := web.NewHosts(slices.Concat([]string{web.AnyHost}, ",
			tests: []string{"./cmd/brokerd"}, run: "TestLookupDaemonAnswersOnlyToItsOwnNames",
		},
		{
			name: "a page of another site publishes", file: "pkg/admin/web/server.go",
			old: "if err := h.origin.Check(r); err != nil {", with: `if err := h.origin.Check(r); err != nil && r.URL.Path != "/pub" {`,
			tests: web, run: "TestCrossSiteRequestsChangeNothing",
		},
		{
			name: "who is refused as busy sees a reset", file: "pkg/admin/web/server.go",
			old: "\t\t\tw.handler.drain(w.ResponseWriter, w.request)\n\t\tcase http.StatusRequestEntityTooLarge:", with: "\t\tcase http.StatusRequestEntityTooLarge:",
			tests: web, run: "TestOversizeRequestSenderSeesError",
		},
		{
			name: "anybody changes options", file: "pkg/admin/nsqd/debug.go",
			old: "if !s.o.ConfigFrom.Has(r) {", with: "if s.o.ConfigFrom != nil && !s.o.ConfigFrom.Has(r) {",
			tests: web, run: "ChosenNetworks",
		},
		{
			name: "the room that was taken since the last look is given again", file: "pkg/diskspace/diskspace.go",
			old: "clampSigned(reserve) - h.taken.Swap(0))", with: "clampSigned(reserve) - min(0, h.taken.Swap(0)))",
			tests: []string{"./pkg/diskspace"}, run: "TestHeadroom",
		},
		{
			name: "a disk that refuses a burst is not low", file: "pkg/diskspace/diskspace.go",
			old: "if h.short.Swap(false) && reserve > 0 {", with: "if h.short.Swap(false) && reserve == 0 {",
			tests: []string{"./pkg/broker"}, run: "TestBurst",
		},
		{
			name: "a bounded log has segments of the usual size", file: "pkg/commitlog/writer.go",
			old: "if bound := l.bound.Load(); bound > 0 {", with: "if bound := l.bound.Load(); bound < 0 {",
			tests: []string{"./pkg/commitlog"}, run: "BoundedBelow",
		},
	}
}

// quotaMistakes concern a lack of space that the file system does not report.
func quotaMistakes() []mistake {
	return []mistake{
		{
			name: "unfinished messages beyond retention-bytes are dropped without a word", file: "pkg/host/retention.go",
			old: "if unfinished > 0 && h.Disk", with: "if unfinished > 0 && share > 0 && h.Disk",
			tests: []string{"./pkg/broker"}, run: "TestUnfinishedMessagesBeyondRetentionAreReported",
		},
		{
			name: "a topic without channels drops unfinished messages", file: "pkg/host/roles.go",
			old: "start > wanted && len(lp.Part.Channels()) > 0 {", with: "start > wanted {",
			tests: []string{"./pkg/broker"}, run: "TestUnfinishedMessagesBeyondRetentionAreReported",
		},
		{
			name: "a write that a quota refused does not make the disk low", file: "pkg/diskspace/denied.go",
			old: "last := s.denials.last.Load()\n\tif last == nil {", with: "last := s.denials.last.Load()\n\tif last == nil || free > 0 {",
			tests: []string{"./pkg/diskspace"}, run: "TestQuota",
		},
		{
			name: "a leader that cannot append tries to hand on once", file: "pkg/host/salvage.go",
			old: "handle = now.Sub(x.handled) >= transferAwayRetry; handle {", with: "handle = !known; handle {",
			tests: []string{"./pkg/host"}, run: "RefusedAppends",
		},
		{
			name: "denials are tried as fast as the disk allows", file: "pkg/diskspace/denied.go",
			old: "time.Since(*cleared) < leastBetween", with: "time.Since(*cleared) < 0", tests: []string{"./pkg/diskspace"}, run: "WithoutPause",
		},
		{
			name: "a leader that cannot append keeps its leadership", file: "pkg/host/salvage.go",
			old: "h.Led(i) != nil && rs.quarantine.elsewhere(h, i) {", with: "false {",
			tests: []string{"./pkg/broker"}, run: "TestLeaderThatCannotCreateSegments",
		},
		{
			name: "a log does not report an append that a quota refused", file: "pkg/commitlog/writer.go",
			old: "l.opts.OnRefused != nil && !vfs", with: "l.opts.OnRefused == nil && !vfs",
			tests: []string{"./pkg/broker"}, run: "TestLeaderUnderQuota",
		},
	}
}
