package main

import "slices"

// mistake is one change of the sources that a test must find.
type mistake struct {
	// name describes the mistake. It begins with the rule of test/model that it violates, if
	// any.
	name  string
	file  string // relative to the module
	old   string // occurs in file exactly once
	with  string // replaces old
	tests []string
	run   string // a pattern of test names; "": all
}

// mistakes returns all of them.
func mistakes() []mistake {
	return slices.Concat(
		replicationMistakes(),
		membershipMistakes(),
		formingMistakes(),
		repairMistakes(),
		damageMistakes(),
		relayMistakes(),
		electionMistakes(),
		startMistakes(),
		positionMistakes(),
		firstMistakes(),
		leaseMistakes(),
		limitMistakes(),
		changeMistakes(),
		wireMistakes(),
		permissionMistakes(),
		extensionMistakes(),
		tagMistakes(),
		clusterMistakes(),
		transferMistakes(),
		redoMistakes(),
		roundMistakes(),
		noteMistakes(),
		lateMistakes(),
		landMistakes(),
		replayMistakes(),
		markerMistakes(),
		sweepMistakes(),
		placeMistakes(),
		descriptorMistakes(),
		latencyMistakes(),
		traceMistakes(),
		boundMistakes(),
		dropMistakes(),
		answerMistakes(),
		wakeMistakes(),
		breathMistakes(),
		onceMistakes(),
		optionMistakes(),
		expiryMistakes(),
		silentMistakes(),
		addressedMistakes(),
		moveMistakes(),
		keyMistakes(),
		rollingMistakes(),
		backupMistakes(),
		snapshotMistakes(),
		stockMistakes(),
		deliveryMistakes(),
		lookupMistakes(),
		operatorMistakes(),
		outcomeMistakes(),
		joiningMistakes(),
	)
}

// structural are the rules of test/model that no line of code can drop, with
// the reason.
func structural() map[string]string {
	return map[string]string{
		"CheckpointKeeps": "a checkpoint leaves nothing out that was noted",
		"NoRollback":      "a term has no call that takes an appended batch back",
		"PositionWaits":   "what a follower keeps of positions knows no log that it could be cut to",
		"CheckAndAppend":  "one goroutine of the follower checks and appends; the simulation of replicas plants it",
	}
}

var (
	replicationTests = []string{"./pkg/coord/replication", "./pkg/coord"}
	membershipTests  = []string{"./pkg/coord/isr", "./pkg/coord"}
	metadataTests    = []string{"./pkg/meta"}
	positionTests    = []string{"./pkg/topic"}
)
