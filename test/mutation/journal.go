package main

// journalMistakes concern the history kept in the metadata.
func journalMistakes() []mistake {
	here, server := []string{"./pkg/meta"}, []string{"./pkg/admin"}
	return []mistake{
		{
			name: "journal: acts are kept without a bound", file: "pkg/meta/journal.go",
			old: "return all[max(0, len(all)-most):]", with: "return all", tests: here, run: "JournalIsBounded",
		},
		{
			name: "journal: states that share their past overwrite each other's", file: "pkg/meta/snapshot.go",
			old: "c.past = s.past.clip()", with: "c.past = s.past", tests: here, run: "Forked",
		},
		{
			name: "journal: what changes nothing is an event", file: "pkg/meta/events.go",
			old: "if at == 0 || r.Existed {", with: "if at == 0 {", tests: here, run: "EveryChange",
		},
		{
			name: "journal: elections that failed count", file: "pkg/meta/events.go",
			old: "if i < len(r.Failed) && r.Failed[i] != nil {", with: "if i < 0 {", tests: here, run: "Elections",
		},
		{
			name: "journal: publishers are recorded as operators", file: "pkg/admin/audit.go",
			old: `return !strings.HasSuffix(path, "/messages") // publishers are no operators`, with: "return true", tests: server, run: "TestOperatorActsAreRecorded|TestRemovedNodeAnswersBeforeRecordingTheAct|TestSecretsAreNotRecorded",
		},
		{
			name: "journal: the endpoints of nsqd are not recorded", file: "pkg/admin/audit.go",
			old: `for _, prefix := range []string{"/topic/", "/channel/", "/config/", "/debug/setblockrate", "/debug/freememory"} {`, with: "for _, prefix := range []string{} {", tests: server, run: "TestOperatorActsAreRecorded|TestRemovedNodeAnswersBeforeRecordingTheAct|TestSecretsAreNotRecorded",
		},
	}
}

// operatorMistakes are about what operators are told, and what is recorded of them.
func operatorMistakes() []mistake {
	broker, formation := []string{"./pkg/broker"}, []string{"./pkg/cluster/formation"}
	return []mistake{
		{
			name: "plan: an ephemeral channel of a new topic may have a policy", file: "pkg/operate/limits.go",
			old: "checkEphemeral(c); err != nil", with: "checkEphemeral(c); false && err != nil", tests: broker, run: "TestPlansSayWhatChangesDo",
		},
		{
			name: "restore: a channel is changed although a partition refuses to be moved", file: "pkg/operate/history.go",
			old: "	_, saved, err := m.plan(ctx)\n	if err != nil {\n		return err\n	}\n	change", with: "	_, saved, _ := m.plan(ctx)\n	change",
			tests: broker, run: "TestRefusedReplacementChangesNothing",
		},
		{
			name: "audit: a change with an unknown outcome is not recorded", file: "pkg/operate/audit.go",
			old: "a.Status == http.StatusServiceUnavailable && f == fate.Refused", with: "a.Status == http.StatusServiceUnavailable || f == fate.Corrupt",
			tests: broker, run: "TestAuditRecordsAreOnEveryNode",
		},
		{
			name: "audit: a change with an unknown outcome counts as refused", file: "pkg/admin/web/note.go",
			old: "a.Fate = fate.Of(err)", with: "a.Fate = fate.Refused",
			tests: []string{"./pkg/admin"}, run: "TestUnknownOutcomeOfChangeIsUnavailable",
		},
		{
			name: "audit: changes on the lookup address are not recorded", file: "pkg/admin/server.go",
			old: "next: audited{o.V1.Broker, o.ObserveAct, found.Serve}.serve}", with: "next: found.Serve}",
			tests: []string{"./pkg/admin"}, run: "TestEveryChangeIsRecorded",
		},
		{
			name: "a change of some partitions is refused, since another one is", file: "pkg/operate/channels.go",
			old: "if err == nil || made+unsure == 0 || partitions == 1 {", with: "if err == nil || made+unsure >= 0 || partitions == 1 {",
			tests: broker, run: "TestPartialChange",
		},
		{
			name: "a channel is moved in some partitions, and the move is refused", file: "pkg/operate/history.go",
			old: "return c.outcome(asked, errors.Join(planned, err))", with: "_ = asked\n\treturn errors.Join(planned, err)",
			tests: broker, run: "TestPartialChange",
		},
		{
			name: "a refused join is not recorded", file: "pkg/cluster/formation/token.go",
			old: "if !final(err) || !n.refused.IsNew(", with: "if final(err) || !n.refused.IsNew(",
			tests: formation, run: "TestJoinTokenAdmits|Refusals",
		},
		{
			name: "records of refusals have no bound", file: "internal/complaint/rare.go",
			old: "known || len(r.at) >= r.Most", with: "known",
			tests: []string{"./internal/complaint"}, run: "TestRare",
		},
		{
			name: "a refusal is recorded each time", file: "internal/complaint/rare.go",
			old: "known || len(r.at) >= r.Most", with: "known && len(r.at) >= r.Most",
			tests: []string{"./internal/complaint"}, run: "TestRare",
		},
		{
			name: "a user's refused change is not recorded", file: "pkg/admin/gate.go",
			old: "g.recordRefusal(r, caller, pattern, err)", with: "_ = caller",
			tests: []string{"./pkg/admin"}, run: "TestRefusedChanges",
		},
		{
			name: "a refused join is no event", file: "pkg/meta/events.go",
			old: "if a.Verb != ActJoin || a.Status < http.StatusBadRequest {", with: "if a.Verb != ActJoin || a.Status >= http.StatusBadRequest {",
			tests: formation, run: "Refusals",
		},
	}
}

// outcomeMistakes are about what changes would do, and have done.
func outcomeMistakes() []mistake {
	broker := []string{"./pkg/broker"}
	return []mistake{
		{
			name: "a plan is not refused as the change is", file: "pkg/directory/plan.go",
			old: "if r.Err != nil {", with: "if r.Err != nil && r.Topic != nil {",
			tests: broker, run: "TestPlans",
		},
		{
			name: "an import does not try out the channels of a new topic", file: "internal/topicfile/plan.go",
			old: "trial.Channels = append(trial.Channels, want.Channels[i].create())", with: "_ = want.Channels[i].create()",
			tests: []string{"./cmd/brokerctl"}, run: "TestImportIsTriedOut",
		},
		{
			name: "a topic that is not kept can be restored", file: "cmd/brokerctl/topic.go",
			old: "case t.Config.RetentionTrash == 0:", with: "case t.Config.RetentionTrash < 0:",
			tests: []string{"./cmd/brokerctl"}, run: "TestDeletionThat",
		},
		{
			name: "a restore repeats what may have happened", file: "internal/backups/create.go",
			old: "ok && e.Code.Retryable() && e.Fate == fate.Refused.String()", with: "ok && e.Code.Retryable()",
			tests: []string{"./internal/backups"}, run: "TestRequestsRefused",
		},
		{
			name: "options are answered with passwords", file: "internal/node/runtimeconfig.go",
			old: "return shown(s.JSON()), true", with: "return s.JSON(), true",
			tests: []string{"./internal/node"}, run: "TestOptionsAreAnswered",
		},
		{
			name: "an error of an auth server has its password", file: "pkg/server/auth/auth.go",
			old: `fmt.Errorf("auth server %s: %w", shown(addr), err)`, with: `fmt.Errorf("auth server %s: %w", addr, err)`,
			tests: []string{"./pkg/server/auth"}, run: "TestErrorsContain",
		},
	}
}
