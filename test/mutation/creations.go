package main

// creationMistakes are about how fast clients may create topics and channels.
func creationMistakes() []mistake {
	const file = "pkg/limit/creations.go"
	return []mistake{
		{
			name: "an ephemeral channel that another node makes does not count", file: "pkg/consume/subscribe.go",
			old: "if meta.IsEphemeral(r.Channel) && len(h.AllLed()) == 0 && ", with: "if false && ",
			tests: []string{"./pkg/broker"}, run: "TestEphemeralChannelOfRemoteTopicCounts",
		},
		{
			name: "each consumer of an ephemeral channel of another node counts", file: "pkg/consume/subscribe.go",
			old: " && !consumes(h, r.Channel) {", with: " {",
			tests: []string{"./pkg/broker"}, run: "TestEphemeralChannelOfRemoteTopicCounts",
		},
		{
			name: "creations: an address has no bound", file: file,
			old: "if !mayOne || !mayAll {", with: "if !mayAll {",
			tests: []string{"./pkg/limit"}, run: "TestAddressCreates",
		},
		{
			name: "creations: all together have no bound", file: file,
			old: "if !mayOne || !mayAll {", with: "if !mayOne || !mayAll && now.IsZero() {",
			tests: []string{"./pkg/limit"}, run: "TestAddressCreates",
		},
		{
			name: "creations: a burst comes back more than once", file: file,
			old: "if used.Before(now) {", with: "if used.IsZero() {",
			tests: []string{"./pkg/limit"}, run: "TestAddressCreates",
		},
		{
			name: "creations: every IPv6 address counts alone", file: file,
			old: "bits = 64", with: "bits = 128",
			tests: []string{"./pkg/limit"}, run: "TestAddressGroups",
		},
		{
			name: "creations: addresses are never forgotten", file: file,
			old: "if !used.After(now) {", with: "if used.IsZero() {",
			tests: []string{"./pkg/limit"}, run: "TestAddressesAreForgotten",
		},
		{
			name: "creations: an ephemeral channel does not count", file: "pkg/directory/directory.go",
			old: "if len(led) > 0 && !slices.ContainsFunc(led, has) {", with: "if len(led) > 1<<20 && !slices.ContainsFunc(led, has) {",
			tests: []string{"./pkg/broker"}, run: "TestExistingTopicsNeedNoRightToCreate",
		},
		{
			name: "creations: a topic that exists counts", file: "pkg/directory/directory.go",
			old: "\tif there {\n\t\treturn d.host.Propose(ctx, c)\n\t}\n\tundo, err", with: "\tundo, err",
			tests: []string{"./pkg/broker"}, run: "TestExistingTopicsNeedNoRightToCreate",
		},
		{
			name: "creations: what was not created counts", file: "pkg/directory/directory.go",
			old: "if err != nil && fate.Of(err) == fate.Refused || r.Existed {", with: "if err != nil && fate.Of(err) == fate.Refused {",
			tests: []string{"./pkg/broker"}, run: "TestRefusedCreationsDoNotCount",
		},
		{
			name: "creations: the NSQ port has no bound", file: "pkg/server/server.go",
			old: "context.WithCancelCause(s.opts.Creations.By(ctx, conn.RemoteAddr()))", with: "context.WithCancelCause(ctx)",
			tests: []string{"./internal/node"}, run: "TestCreationLimitAppliesOnEveryPort",
		},
		{
			name: "creations: HTTP has no bound", file: "internal/node/node.go",
			old: "return n.created.By(publish.WithClient(ctx, c.RemoteAddr().String()), c.RemoteAddr())", with: "return publish.WithClient(ctx, c.RemoteAddr().String())",
			tests: []string{"./internal/node"}, run: "TestCreationLimitAppliesOnEveryPort",
		},
	}
}

// strangerMistakes concern log lines caused by strangers at the cluster port.
func strangerMistakes() []mistake {
	return []mistake{
		{
			name: "each stranger at the cluster port is a line", file: "pkg/cluster/callserver.go",
			old: "!c.book.Warn(log, now,", with: "!new(complaint.Book).Warn(log, now,",
			tests: []string{"./pkg/cluster"}, run: "TestStrangersAtTheClusterPort",
		},
		{
			name: "a refusal that was logged is logged again", file: "pkg/cluster/callserver.go",
			old: "\tc.told[k] = true\n", with: "",
			tests: []string{"./pkg/cluster"}, run: "TestStrangersAtTheClusterPort",
		},
	}
}
