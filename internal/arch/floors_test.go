package arch

import (
	"slices"
	"strings"
	"testing"
)

// floors is the floor of each package. A package imports only packages of lower floors;
// docs/architecture.md has a drawing.
var floors = map[string]int{
	"pkg/seq":       0, // numbers
	"pkg/limit":     0, // limits of message sizes and of the memory for clients
	"pkg/fate":      0, // what an error means for the data
	"pkg/failure":   0, // the registry of what can go wrong
	"pkg/level":     0, // what nodes may rely on of each other
	"pkg/flow":      0, // how many messages come and go
	"pkg/sampling":  0, // which messages are traced
	"pkg/changes":   0, // the records of a journal
	"pkg/scrub":     0, // how fast stored data is checked
	"pkg/keys":      0, // the key of a message, found in its body
	"pkg/keyorder":  0, // messages of one key wait for each other
	"pkg/units":     0, // sizes and durations as people write them
	"pkg/filter":    0, // which messages an expression chooses
	"pkg/policy":    0, // policies for messages that consumers do not finish
	"pkg/vfs":       0, // the seam to the disk
	"pkg/nsq":       0, // the wire codec
	"pkg/health":    0, // reasons for which something is not as it should be
	"pkg/access":    0, // users, rules and the check of a request
	"pkg/guard":     1, // which user a credential belongs to
	"pkg/admin/api": 0, // the JSON of /v1 and its client: for programs outside, too
	"pkg/client":    1, // for programs outside: it knows the wire and nothing of the broker

	"pkg/diskspace":             1, // what room the disk has
	"pkg/lease":                 1, // for how long what a process knows may be acted on
	"pkg/age":                   1, // of stored data, whatever wall clocks say
	"pkg/dedup":                 1, // which publisher's ids are stored
	"pkg/redo":                  1, // many files made durable with one sync
	"pkg/commitlog":             1,
	"pkg/commitlog/commitnote":  1, // a file of a log
	"pkg/commitlog/segmenthead": 1, // likewise
	"pkg/commitlog/repair":      2, // the damaged ranges of logs, and their repair by what other replicas have
	"pkg/header":                1, // what a message's header says to the broker
	"pkg/advance":               1, // the position changes of messages between two snapshots of positions
	"pkg/channel":               1,
	"pkg/record":                1, // messages as bytes in a log
	"pkg/processing":            1, // how long messages take
	"pkg/sharing":               1, // the order in which positions are sent to other replicas
	"pkg/trace":                 1, // what happened to messages
	"pkg/meta":                  1,
	"pkg/peer":                  1, // calls between nodes
	"pkg/server/auth":           1, // the client of auth servers

	"pkg/backup":            1, // the format of a directory of backups
	"pkg/reading":           2, // a log, record by record, for clients
	"pkg/topic":             2,
	"pkg/otlp":              2, // what happened to messages, as spans
	"pkg/stall":             2, // what does not progress
	"pkg/scrubber":          2, // what is stored is read again
	"pkg/datadir":           2, // what lies where on a node's disk
	"pkg/stats":             2, // figures of topics and connections, and their sums
	"pkg/coord/isr":         2,
	"pkg/coord/replication": 2,
	"pkg/meta/raftstore":    2,
	"pkg/meta/placement":    2, // which nodes hold the replicas of new partitions

	"pkg/quota":              3, // how much a topic may hold
	"pkg/route":              3, // to which partitions messages go
	"pkg/once":               3, // messages with dedup ids, stored once
	"pkg/coord":              3,
	"pkg/cluster/controller": 3,
	"pkg/cluster/formation":  3, // membership of the cluster
	"pkg/forward":            3, // what nodes ask of each other for clients
	"pkg/relay":              3, // consumers of what other nodes lead
	"pkg/deferral":           3, // what operators do with deferred messages
	"pkg/deadletter":         3, // where messages go that have had all their attempts
	"pkg/removal":            3, // of data from a disk

	"pkg/host":    4, // what a node does with its replicas
	"pkg/cluster": 4, // one node's membership

	"pkg/directory": 5, // topics and channels change

	"pkg/publish": 6, // a publish finds its leader
	"pkg/consume": 6, // subscriptions, and relays for them
	"pkg/operate": 6, // what operators ask and do

	"pkg/broker": 7, // one node wired together

	"pkg/server":  8,
	"pkg/metrics": 8,

	"pkg/admin/web":     8, // what the HTTP interfaces have in common
	"pkg/admin/nsqform": 9, // the form that nsqd's and nsqlookupd's share
	"pkg/admin/nsqd":    10,
	"pkg/admin/lookup":  10,
	"pkg/admin/v1":      10, // the operator's
	"pkg/admin":         11, // all of them, on a node's addresses

	"pkg/brokertest": 13, // nodes inside other people's tests

	// internal: helpers of the commands and of the tests.
	"internal/arch":      0,
	"internal/backlog":   0, // for pkg, too
	"internal/beat":      0, // for pkg, too
	"internal/listing":   1, // what brokerctl prints of lists
	"internal/batching":  1, // what brokerctl publishes
	"internal/generate":  2, // a part of brokerctl
	"internal/rolling":   2, // likewise
	"internal/accessctl": 2, // likewise
	"internal/bundle":    2, // likewise
	"internal/checks":    3, // likewise
	"internal/backups":   2, // likewise
	"internal/snapshots": 2, // likewise
	"internal/latency":   0, // likewise
	"internal/measure":   0, // what a benchmark of brokerctl counts
	"internal/stack":     0, // likewise
	"internal/turn":      0, // likewise
	"internal/words":     0, // for pkg, too
	"internal/build":     0, // for both programs
	"internal/complaint": 0, // for pkg, too
	"internal/certtest":  0, // certificates: for tests
	"internal/fan":       0, // likewise
	"internal/fields":    0, // for pkg, too
	"internal/golden":    0, // files in testdata: for tests
	"internal/lane":      0, // likewise
	"internal/logtest":   0, // the lines of a log: for tests
	"internal/config":    8,
	"internal/coordtest": 4, // replicas in memory: for tests
	"internal/lookupd":   8,
	"internal/manual":    1,  // for both programs
	"internal/model":     0,  // of the protocol, not of the code
	"internal/node":      12, // one node with its parts wired together
	"internal/nsqdfiles": 0,  // what an nsqd leaves on disk
	"internal/signal":    0,  // for pkg, too
	"internal/simtest":   1,  // for the tests in test/sim
	"internal/peertest":  0,  // a network in memory: for tests
	"internal/vfstest":   1,  // a disk that fails: for tests
	"internal/testrand":  0,  // seeds of random tests

	"deploy": 0, // files, for programs that print them

	"cmd/brokerd":   13,
	"cmd/brokerctl": 12,
}

// sameFloor lists the deliberate imports within one floor.
var sameFloor = map[[2]string]string{
	{"pkg/vfs", "pkg/fate"}:                        "an error of the disk is given its fate where it arises",
	{"pkg/nsq", "pkg/seq"}:                         "the wire spells message ids",
	{"pkg/sampling", "pkg/seq"}:                    "a rule names message ids",
	{"pkg/trace", "pkg/record"}:                    "what is kept of a message is read off it",
	{"pkg/admin/api", "pkg/units"}:                 "the JSON takes durations as the command line does",
	{"pkg/admin/api", "pkg/health"}:                "the JSON of a verdict is the verdict",
	{"pkg/access", "pkg/fate"}:                     "a change that is refused has changed nothing",
	{"pkg/failure", "pkg/fate"}:                    "a failure has a fate",
	{"pkg/limit", "pkg/failure"}:                   "what a budget refuses is in the registry",
	{"pkg/nsq", "pkg/failure"}:                     "so are the codes of error frames",
	{"pkg/admin/api", "pkg/failure"}:               "and those of answers",
	{"pkg/policy", "pkg/units"}:                    "a policy is written with durations as people write them",
	{"pkg/filter", "pkg/fate"}:                     "an expression that is refused has changed nothing",
	{"pkg/topic", "pkg/reading"}:                   "a channel reads its log, which a package of its own knows how to",
	{"pkg/commitlog", "pkg/commitlog/segmenthead"}: "likewise",
	{"pkg/commitlog", "pkg/commitlog/commitnote"}:  "a log has this file, which a package of its own knows how to read",
	{"pkg/relay", "pkg/forward"}:                   "a relay speaks the wire between nodes",
	{"pkg/access", "pkg/failure"}:                  "and is in the registry",
}

// soleImporters lists the only packages that may import a module. A name that ends in / stands for
// all packages below it.
var soleImporters = map[string][]string{
	"golang.org/x/crypto":              {"pkg/access"},
	"github.com/expr-lang/expr":        {"pkg/filter"},
	"github.com/prometheus/":           {"pkg/metrics"},
	"github.com/spf13/cobra":           {"cmd/brokerctl", "cmd/brokerd", "internal/accessctl", "internal/checks", "internal/generate", "internal/manual", "internal/snapshots"},
	"github.com/hashicorp/":            {"pkg/meta/raftstore"},
	"go.etcd.io/bbolt":                 {"pkg/meta/raftstore"},
	"github.com/HdrHistogram/":         {"internal/measure", "tools/loadgen/"},
	"github.com/coreos/go-systemd/":    {"cmd/brokerd"},
	"github.com/pelletier/go-toml/":    {"internal/config", "cmd/brokerd"}, // nsqd's own file, for the stand-in
	"go.yaml.in/yaml/":                 {"internal/accessctl", "cmd/brokerctl"},
	"github.com/nsqio/go-nsq":          {"tools/loadgen/"},
	"github.com/google/go-cmp/":        {"internal/golden"},
	"go.opentelemetry.io/proto/":       {"pkg/otlp"},
	"google.golang.org/protobuf/":      {"pkg/otlp"},
	"go.uber.org/goleak":               {},
	"pgregory.net/rapid":               {},
	"github.com/rogpeppe/go-internal/": {},
}

// outside names the trees that are separate programs: they use the broker's wire protocol and not
// its packages.
func outside(dir string) bool {
	return strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "tools/")
}

// forOutside names the packages for programs outside the repository.
var forOutside = map[string]bool{"pkg/client": true}

func TestEveryPackageHasAFloor(t *testing.T) {
	for _, s := range sources(t) {
		if _, ok := floors[s.dir]; !ok && !s.test && !outside(s.dir) {
			t.Errorf("%s: package %s has no floor: give it one in floors_test.go and in docs/architecture.md", s.path, s.dir)
		}
	}
}

func TestEveryFloorHasItsPackage(t *testing.T) {
	there := map[string]bool{}
	for _, s := range sources(t) {
		there[s.dir] = true
	}
	for dir := range floors {
		if !there[dir] {
			t.Errorf("floors_test.go speaks of %s, which is not there", dir)
		}
	}
}

func TestPackagesImportLowerFloorsOnly(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue // a test may import from any lower floor
		}
		for _, imp := range s.imports() {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if outside(s.dir) {
				if !outside(to) && !forOutside[to] {
					t.Errorf("%s imports %s: programs under %s use the broker from outside", s.path, to, s.dir)
				}
				continue
			}
			if _, thought := sameFloor[[2]string{s.dir, to}]; thought {
				continue
			}
			if floors[to] >= floors[s.dir] {
				t.Errorf("%s (floor %d) imports %s (floor %d)", s.path, floors[s.dir], to, floors[to])
			}
		}
	}
}

// TestTwinsAreOnlyForTests checks that the broker does not import test doubles.
func TestTwinsAreOnlyForTests(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || strings.HasSuffix(s.dir, "test") {
			continue
		}
		for _, imp := range s.imports() {
			if strings.HasPrefix(imp, module+"/internal/") && strings.HasSuffix(imp, "test") {
				t.Errorf("%s imports %s, which is for tests only", s.path, imp)
			}
		}
	}
}

func TestModulesHaveTheirImporters(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, imp := range s.imports() {
			for mod, allowed := range soleImporters {
				if imp != mod && !strings.HasPrefix(imp, strings.TrimSuffix(mod, "/")+"/") {
					continue
				}
				if !slices.ContainsFunc(allowed, func(a string) bool {
					return a == s.dir || strings.HasSuffix(a, "/") && strings.HasPrefix(s.dir+"/", a)
				}) {
					t.Errorf("%s imports %s, which is for %v and tests only", s.path, imp, allowed)
				}
			}
		}
	}
}
