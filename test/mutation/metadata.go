package main

// electionMistakes are about who is elected.
func electionMistakes() []mistake {
	const partition = "pkg/meta/commands_partition.go"
	return []mistake{
		{
			name: "ElectionBumpsEpoch: an election keeps the epoch", file: partition,
			old: "\tp.Epoch++\n\tswitch {\n", with: "\tswitch {\n",
			tests: metadataTests,
		},
		{
			name: "ElectFromISR: any replica is elected", file: "pkg/meta/suspect.go",
			old: "if !slices.Contains(p.ISR, id) {", with: "if !slices.Contains(p.Replicas, id) {",
			tests: metadataTests,
		},
		{
			name: "SuspectLast: a suspect is elected beside one that is not", file: "pkg/meta/suspect.go",
			old: "if !too || o.compare(s) > 0 {", with: "if too && o.compare(s) > 0 {",
			tests: metadataTests,
		},
		{
			name: "SuspectLast: a suspect is elected beside one that holds more", file: "pkg/meta/suspect.go",
			old: "if !too || o.compare(s) > 0 {", with: "if !too && o.End >= 0 {",
			tests: metadataTests,
		},
		{
			name: "SuspectLast: a damaged suspect is elected for its length", file: "pkg/meta/suspect.go",
			old: "\t\tcmp.Compare(truth(o.Damaged), truth(s.Damaged)),\n", with: "",
			tests: metadataTests,
		},
	}
}

// startMistakes are about what a node says of itself when it starts.
func startMistakes() []mistake {
	const powerloss = "pkg/meta/powerloss.go"
	return []mistake{
		{
			name: "RestartEndsTerm: a leader that restarted leads on in its epoch", file: "pkg/meta/commands_cluster.go",
			old:   "func(p Partition) bool { return p.Leader == n.ID }) {",
			with:  "func(p Partition) bool { return p.Leader == n.ID && p.Epoch == 0 }) {",
			tests: metadataTests,
		},
		{
			name: "BootRule: a loss of power is not noticed", file: powerloss,
			old: "\tcase lostPower(was, c):\n", with: "\tcase false:\n",
			tests: metadataTests,
		},
		{
			name: "BootRule: a new boot id does not matter", file: powerloss,
			old: "(c.Node.BootID == \"\" || was.BootID != c.Node.BootID)", with: "c.Node.BootID == \"\"",
			tests: metadataTests,
		},
		{
			name: "OrderedBootRule: a loss of power does not matter where each message is synced", file: powerloss,
			old: "(t.unsynced() || t.ordering())", with: "t.unsynced()",
			tests: metadataTests,
		},
		{
			name: "EmptyLeaves: an empty disk is not noticed", file: powerloss,
			old: "\tcase was != nil && c.Empty:\n", with: "\tcase false:\n",
			tests: metadataTests,
		},
		{
			name: "LastLeaves: an empty disk stays as the last member", file: powerloss,
			old: "withoutReplica(t, id, 1, index)", with: "withoutReplica(t, id, 2, index)",
			tests: metadataTests,
		},
		{
			name: "RegisterFirst: a node acts before it has its own return", file: "pkg/cluster/register.go",
			old: "err = r.catchUp(ctx, index)", with: "_ = index",
			tests: []string{"./pkg/cluster"},
		},
		{
			name: "LossUntilTold: an empty disk is told once", file: "pkg/cluster/register.go",
			old:   "if r.command.Empty, err = r.marks.has(markUnregistered); err != nil {",
			with:  "if r.command.Empty, err = r.marks.has(markUnregistered); err == nil && r.command.Empty {\n\t\terr = r.marks.clear(markUnregistered)\n\t}\n\tif err != nil {",
			tests: []string{"./pkg/cluster"},
		},
		{
			name: "MissingIsSilent: a replica that lost its directory is taken for a new one", file: "pkg/host/quarantine.go",
			old: "\tif q.lost(h, t, i, names) {\n", with: "\tif false {\n",
			tests: []string{"./pkg/broker"}, run: "LostItsData",
		},
		{
			name: "a leader yields to a replica that has left the in-sync set", file: "pkg/meta/suspect.go",
			old: "\tif slices.Contains(p.ISR, c.To) {\n\t\tp.suspect", with: "\tif slices.Contains(p.Replicas, c.To) {\n\t\tp.suspect",
			tests: metadataTests,
		},
	}
}
