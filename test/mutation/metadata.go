package main

// electionMistakes concern elections.
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
		{
			name: "a change of a topic undoes what somebody else has changed meanwhile", file: "pkg/meta/commands_topic.go",
			old: "if !was.Field(i).Equal(will.Field(i)) {", with: "if was.NumField() > 0 {",
			tests: metadataTests,
		},
	}
}

// startMistakes concern the registration of a node's start.
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
			name: "LossUntilTold: an empty disk is reported once only", file: "pkg/cluster/register.go",
			old:   "if r.command.Empty, err = r.marks.has(markUnregistered); err != nil {",
			with:  "if r.command.Empty, err = r.marks.has(markUnregistered); err == nil && r.command.Empty {\n\t\terr = r.marks.clear(markUnregistered)\n\t}\n\tif err != nil {",
			tests: []string{"./pkg/cluster"},
		},
		{
			name: "MissingIsSilent: a replica that lost its directory is taken for a new one", file: "pkg/host/quarantine.go",
			old: "\tif q.lost(h, t, i, names) {\n", with: "\tif false {\n",
			tests: []string{"./pkg/broker"}, run: "TestEmptiedReplicaOfNewTopicDoesNotLead|TestLastInSyncReplicaWithoutDataWaitsForOperator|TestReplicaWithoutDataDoesNotCountAsInSync",
		},
		{
			name: "a leader yields to a replica that has left the in-sync set", file: "pkg/meta/suspect.go",
			old: "\tif slices.Contains(p.ISR, c.To) {\n\t\tp.suspect", with: "\tif slices.Contains(p.Replicas, c.To) {\n\t\tp.suspect",
			tests: metadataTests,
		},
	}
}

// accessMistakes concern users and rights.
func accessMistakes() []mistake {
	here, stored := []string{"./pkg/access"}, []string{"./pkg/meta"}
	return []mistake{
		{
			name: "access: a rule for one right grants another", file: "pkg/access/rule.go",
			old: "case r.Right != d.Right:", with: "case false:", tests: here, run: "TestRuleGrantsOnlyItsRights",
		},
		{
			name: "access: a rule for one topic grants another", file: "pkg/access/rule.go",
			old: `d.Topic == "" || !match(r.Topic, d.Topic)`, with: `d.Topic == ""`, tests: here, run: "TestRuleGrantsOnlyItsRights",
		},
		{
			name: "access: a rule for one channel grants another", file: "pkg/access/rule.go",
			old: `d.Channel != "" && match(r.Channel, d.Channel)`, with: `d.Channel != ""`, tests: here, run: "TestRuleGrantsOnlyItsRights",
		},
		{
			name: "access: a pattern means names that only begin like it", file: "pkg/access/rule.go",
			old: `return strings.Trim(pattern[p:], "*") == ""`, with: `return strings.Trim(pattern[p:], "*") == "" || true`, tests: here, run: "Patterns|TestRuleGrantsOnlyItsRights",
		},
		{
			name: "access: the id of a token is enough", file: "pkg/access/directory.go",
			old: "t == nil || !t.is(text)", with: "t == nil", tests: here, run: "TestTokenIsValidUntilExpiry",
		},
		{
			name: "access: a token does not expire", file: "pkg/access/directory.go",
			old: "t.Expires != 0 && now >= t.Expires", with: "false", tests: here, run: "TestTokenIsValidUntilExpiry",
		},
		{
			name: "access: the tokens of a deleted user stay", file: "pkg/access/change.go",
			old: "t.User == c.User", with: "false", tests: here, run: "TestTokenIsValidUntilExpiry",
		},
		{
			name: "access: a certificate of two users is the last one's", file: "pkg/access/directory.go",
			old: "case owner != nil && owner != u:", with: "case false:", tests: here, run: "TestCertificateBelongsToOneUserAtMost",
		},
		{
			name: "access: the last administrator may go", file: "pkg/access/change.go",
			old: "if !n.safe() {", with: "if false {", tests: here, run: "TestAdministratorCanAlwaysSwitchItOff",
		},
		{
			name: "access: an administrator with a token that expires is enough", file: "pkg/access/directory.go",
			old: "lasting[t.User] || t.Expires == 0", with: "true", tests: here, run: "TestAdministratorCanAlwaysSwitchItOff",
		},
		{
			name: "access: a rule that is given twice stays when it is revoked", file: "pkg/access/change.go",
			old: "slices.Contains(u.Rules[:i], r)", with: "i < 0", tests: here, run: "TestInvalidAccessChangesAreRefused",
		},
		{
			name: "access: passwords are stored as they are", file: "pkg/access/change.go",
			old: `!ok && u.Password != ""`, with: "!ok && false", tests: here, run: "TestInvalidAccessChangesAreRefused",
		},
		{
			name: "access: who has no password has an empty one", file: "pkg/access/secret.go",
			old: "key) == 1 && known", with: "key) == 1 || !known", tests: here, run: "TestPasswordIsHashed",
		},
		{
			name: "access: a token that is cut off is recorded", file: "pkg/access/secret.go",
			old: "if len(rest) > idText+1 &&", with: "if len(rest) >= tokenLength-len(tokenPrefix) &&", tests: []string{"./pkg/access"}, run: "TestTokenSecretsAreRedacted",
		},
		{
			name: "access: a refused change of the metadata has made some of it", file: "pkg/meta/access.go",
			old: "if err != nil {\n\t\treturn err\n\t}\n\ts.access = next", with: "s.access = next\n\tif err != nil {\n\t\treturn err\n\t}", tests: stored, run: "AccessStays",
		},
		{
			name: "access: the snapshot forgets it", file: "pkg/meta/snapshot.go",
			old: "Access: s.access != nil,", with: "Access: false,", tests: stored, run: "TestSnapshotContainsAccess",
		},
	}
}
