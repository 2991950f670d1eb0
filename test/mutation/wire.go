package main

// wireMistakes concern what clients send and receive.
func wireMistakes() []mistake {
	return []mistake{
		{
			name: "an ephemeral channel is not made where it is missing", file: "pkg/consume/subscribe.go",
			old: "if !meta.IsEphemeral(r.Channel) {", with: "if true {",
			tests: []string{"./pkg/broker"}, run: "TestEphemeralChannelIsCreatedOnceTopicIsLed",
		},
		{
			name: "a compressor's pieces are written one by one", file: "pkg/server/compress.go",
			old: "c, err := around(g)", with: "c, err := around(to)",
			tests: []string{"./pkg/server"}, run: "TestCompressorWritesOncePerFlush",
		},
		{
			name: "ids do not depend on the cluster", file: "pkg/seq/wire.go",
			old: "binary.BigEndian.AppendUint64([]byte(cluster), incarnation)", with: "binary.BigEndian.AppendUint64(nil, incarnation)",
			tests: []string{"./pkg/seq"}, run: "TestFirstID",
		},
		{
			name: "ids do not depend on the life of the topic", file: "pkg/host/topics.go",
			old: "seq.NumberingOf(ts.cluster, uint64(t.Incarnation))", with: "seq.NumberingOf(ts.cluster, 1)",
			tests: []string{"./pkg/broker"}, run: "TestMessageHasTheSameID",
		},
		{
			name: "an id that is no place is taken for one", file: "pkg/seq/wire.go",
			old: "return m, m>>(offsetBits+partitionBits) == 0", with: "return m, true",
			tests: []string{"./pkg/seq"}, run: "TestIDOfAnotherTopic",
		},
		{
			name: "messages go out by the ids of their successors", file: "pkg/server/writer.go",
			old: "d.Attempts, w.link.ids.ID(d.ID)", with: "d.Attempts, w.link.ids.ID(d.ID + 1)",
			tests: []string{"./pkg/server"},
		},
		{
			name: "a message of the largest size in a batch is refused", file: "pkg/nsq/mpub.go",
			old: "case int(size) > w.limits.Message:", with: "case int(size) >= w.limits.Message:",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a message one byte too large in a batch is taken", file: "pkg/nsq/mpub.go",
			old: "case int(size) > w.limits.Message:", with: "case int(size) > w.limits.Message+1:",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a batch may be longer than a body under a small size", file: "pkg/nsq/mpub.go",
			old: "+rest > w.limits.Body:", with: "+rest > 2*w.limits.Body:",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a batch of the largest size under a small size is refused", file: "pkg/nsq/mpub.go",
			old: "+rest > w.limits.Body:", with: "+rest >= w.limits.Body:",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "a batch may announce more messages than a body holds", file: "pkg/nsq/mpub.go",
			old: "count <= 0 || int(count) > most {", with: "count <= 0 || int(count) > 2*most {",
			tests: []string{"./pkg/server"}, run: "TestLimitsAreExact",
		},
		{
			name: "what follows a long batch in the buffer is lost", file: "pkg/nsq/mpub.go",
			old: "r.r += used\n", with: "r.r = r.w\n",
			tests: []string{"./pkg/nsq"}, run: "TestBatchesOfAllSizes",
		},
	}
}

// extensionMistakes concern what clients of youzan's nsq send and receive.
func extensionMistakes() []mistake {
	return []mistake{
		{
			name: "a trace id without a message is taken", file: "pkg/nsq/extension.go",
			old: "if len(body) <= traceIDLen {", with: "if len(body) < traceIDLen {",
			tests: []string{"./pkg/server"}, run: "TestExtensionsRefuse",
		},
		{
			name: "a header without a message is taken", file: "pkg/nsq/extension.go",
			old: "if len(body) <= end {", with: "if len(body) < end {",
			tests: []string{"./pkg/server"}, run: "TestExtensionsRefuse",
		},
		{
			name: "a header that is null is taken", file: "pkg/header/header.go",
			old: "if all == nil {", with: "if false {",
			tests: []string{"./pkg/header"}, run: "TestParse",
		},
		{
			name: "a header is taken on a plain topic", file: "pkg/server/extension.go",
			old: "!e.publisher.link.srv.opts.AllowExtCompatible || !said.Only", with: "!said.Only",
			tests: []string{"./pkg/server"}, run: "TestExtensionsRefuse",
		},
		{
			name: "all headers are taken on a plain topic where reserved keys are", file: "pkg/server/extension.go",
			old: "!e.publisher.link.srv.opts.AllowExtCompatible || !said.Only", with: "!e.publisher.link.srv.opts.AllowExtCompatible",
			tests: []string{"./pkg/server"}, run: "TestReservedKeys",
		},
		{
			name: "a batch has the trace id of its first message", file: "pkg/server/extension.go",
			old: "if out.verb == nsq.PubTrace { // a batch", with: "if true { // a batch",
			tests: []string{"./pkg/server"}, run: "TestExtensionsPublishGolden",
		},
		{
			name: "the partition cannot be read from an id", file: "pkg/seq/wire.go",
			old: "binary.BigEndian.Uint64(sum[:]))&randomBits", with: "binary.BigEndian.Uint64(sum[:]))",
			tests: []string{"./pkg/seq"}, run: "TestIDContainsPartition",
		},
		{
			name: "a publish is given the position where its batch begins", file: "pkg/topic/publish.go",
			old: "at.Position + int64(e.at)", with: "at.Position",
			tests: []string{"./pkg/topic"}, run: "TestPublisherAndConsumerSeeOnePosition",
		},
		{
			name: "the n-th message is counted from 0", file: "pkg/topic/start.go",
			old: "seq.Offset(max(s.Value-1, 0))", with: "seq.Offset(s.Value)",
			tests: []string{"./pkg/topic"}, run: "TestFirstConsumerChoosesStart",
		},
		{
			name: "a consumer who expects headers is served without", file: "pkg/server/subscribe.go",
			old: "case !about.Config.Ext && s.settings.Extended:", with: "case false:",
			tests: []string{"./pkg/server"}, run: "TestInvalidExtendedSubscriptionsAreRefused",
		},
		{
			name: "binary ids are read as lines", file: "pkg/server/subscribe.go",
			old: "s.reader.SetRawIDs(form.Binary)", with: "s.reader.SetRawIDs(false)",
			tests: []string{"./pkg/server"}, run: "TestBinaryIDs",
		},
		{
			name: "places stand before headers", file: "pkg/server/subscribe.go",
			old: "Ext: about.Config.Ext, Details: command", with: "Ext: command, Details: about.Config.Ext",
			tests: []string{"./pkg/server"}, run: "TestExtendedFramesGolden",
		},
	}
}

// permissionMistakes concern rights.
func permissionMistakes() []mistake {
	return []mistake{
		{
			name: "a publish that was permitted once always is", file: "pkg/server/authorize.go",
			old: "if users && t.permitted == d &&", with: "if users && t.permitted != nil &&",
			tests: []string{"./pkg/server"}, run: "TestAccessChangeStopsNextPublish",
		},
		{
			name: "a token counts after its end on a connection", file: "pkg/guard/guard.go",
			old: "t.Hash != id.token.Hash || t.Expired(now)", with: "t.Hash != id.token.Hash",
			tests: []string{"./pkg/guard"}, run: "TestIdentityExpiresWithItsCredential",
		},
	}
}
