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
			old: `for _, prefix := range []string{"/topic/", "/channel/", "/config/"} {`, with: "for _, prefix := range []string{} {", tests: server, run: "TestOperatorActsAreRecorded|TestRemovedNodeAnswersBeforeRecordingTheAct|TestSecretsAreNotRecorded",
		},
	}
}
