package arch

import (
	"slices"
	"strings"
	"testing"
)

// floors is the floor of each package. A package imports only packages of lower floors;
// docs/architecture.md has a drawing.
var floors = map[string]int{
	"pkg/seq":       0, // offsets, epochs and message ids
	"pkg/limit":     0, // size limits, and budgets for clients' memory and processor time
	"pkg/fate":      0, // the meaning of an error for the data
	"pkg/failure":   0, // the registry of failures and their codes
	"pkg/level":     0, // feature levels of releases
	"pkg/flow":      0, // message rates of channels
	"pkg/sampling":  0, // which messages are traced
	"pkg/changes":   0, // the records of a journal
	"pkg/keys":      0, // finds the key in a message body
	"pkg/keyorder":  0, // queues of messages by key
	"pkg/units":     0, // parses and prints sizes and durations
	"pkg/filter":    0, // filter expressions of channels
	"pkg/policy":    0, // policies for unfinished messages
	"pkg/vfs":       0, // the file system interface
	"pkg/vfs/hook":  1, // a file system that calls a hook for each operation
	"pkg/nsq":       0, // the codec of the NSQ protocol
	"pkg/health":    0, // reasons for degraded health
	"pkg/access":    0, // users, rules and the check of a request
	"pkg/guard":     1, // authenticates credentials
	"pkg/admin/api": 0, // the JSON types of /v1 and a client, also for other programs
	"pkg/client":    1, // the client library for other programs: knows only the wire protocol

	"pkg/diskspace":             1, // free disk space and reserves
	"pkg/lease":                 1, // how long a leader may deliver
	"pkg/age":                   1, // the age of stored data, independent of wall clocks
	"pkg/dedup":                 1, // the table of dedup ids
	"pkg/redo":                  1, // makes many files durable with one sync
	"pkg/commitlog":             1,
	"pkg/commitlog/commitnote":  1, // the committed-end file of a log
	"pkg/commitlog/segmenthead": 1, // the header of a segment
	"pkg/commitlog/repair":      2, // repairs damaged ranges of logs from other replicas
	"pkg/header":                1, // headers of messages and their reserved keys
	"pkg/advance":               1, // changes of positions between two snapshots
	"pkg/channel":               1,
	"pkg/position":              1, // what is stored of a channel, and its encoding
	"pkg/record":                1, // the encoding of a message in a log
	"pkg/processing":            1, // latencies of messages, and requeue loops
	"pkg/sharing":               1, // the interface for sending positions to other replicas
	"pkg/trace":                 1, // events of traced messages
	"pkg/meta":                  1,
	"pkg/peer":                  1, // connections and calls between nodes
	"pkg/server/auth":           1, // the client of auth servers

	"pkg/backup":            1, // the format of backups, and the store in a directory
	"pkg/backup/s3store":    2, // the store in an S3 bucket
	"pkg/reading":           2, // reads a log record by record
	"pkg/positions":         2, // stores the channel positions of a partition
	"pkg/topic":             2,
	"pkg/otlp":              2, // exports traced messages as spans
	"pkg/stall":             2, // reports operations without progress
	"pkg/scrubber":          2, // re-reads stored data
	"pkg/datadir":           2, // the layout and ownership of a data directory
	"pkg/stats":             2, // statistics of topics and connections
	"pkg/coord/isr":         2,
	"pkg/coord/replication": 2,
	"pkg/meta/raftstore":    2,
	"pkg/meta/placement":    2, // chooses the nodes of new replicas

	"pkg/quota":              3, // size limits of topics
	"pkg/route":              3, // chooses partitions for messages
	"pkg/once":               3, // stores messages with dedup ids once
	"pkg/coord":              3,
	"pkg/cluster/controller": 3,
	"pkg/cluster/formation":  3, // formation and membership
	"pkg/forward":            3, // calls between nodes on behalf of clients
	"pkg/relay":              3, // consumers of partitions that other nodes lead
	"pkg/deferral":           3, // operators' requests about deferred messages
	"pkg/deadletter":         3, // disposes of exhausted and expired messages
	"pkg/removal":            3, // removes data of deleted topics

	"pkg/quarantine": 4, // suspect replicas and set-aside copies
	"pkg/host":       4, // the replicas on this node
	"pkg/cluster":    4, // one node's membership

	"pkg/directory": 5, // creates, changes and deletes topics and channels

	"pkg/publish": 6, // routes publishes to their leaders
	"pkg/consume": 6, // subscriptions and relay sources
	"pkg/operate": 6, // operators' queries and changes

	"pkg/broker": 7, // wires the rooms of one node

	"pkg/server":  8,
	"pkg/metrics": 9,

	"pkg/admin/web":     8, // common parts of the HTTP interfaces
	"pkg/admin/nsqform": 9, // common parts of nsqd's and nsqlookupd's endpoints
	"pkg/admin/nsqd":    10,
	"pkg/admin/lookup":  10,
	"pkg/admin/v1":      10, // the /v1 API
	"pkg/admin":         11, // all HTTP interfaces on a node's addresses

	"pkg/brokertest": 13, // nodes inside tests of other programs

	// internal: helpers of the commands and of the tests
	"internal/arch":       0,
	"internal/backlog":    0, // also for pkg
	"internal/beat":       0, // also for pkg
	"internal/listing":    1, // brokerctl's output of lists
	"internal/topiclog":   1, // brokerctl's reading of logs
	"internal/output":     2, // brokerctl's output formats
	"internal/shell":      3, // what brokerctl gives to its commands in other packages
	"internal/nsqlink":    2, // brokerctl's connections over the NSQ protocol
	"internal/workload":   3, // the load of its benchmarks
	"internal/batching":   1, // brokerctl's batches of lines
	"internal/generate":   2, // a part of brokerctl
	"internal/rolling":    2, // likewise
	"internal/accessctl":  4, // likewise
	"internal/bundle":     2, // likewise
	"internal/checks":     3, // likewise
	"internal/settings":   4, // likewise
	"internal/topicfile":  4, // likewise
	"internal/backups":    2, // likewise
	"internal/backupctl":  4, // likewise
	"internal/snapshots":  2, // likewise
	"internal/latency":    0, // likewise
	"internal/measure":    0, // what a benchmark of brokerctl counts
	"internal/stack":      0, // likewise
	"internal/hugepage":   0, // moves the heap of brokerd
	"internal/turn":       0, // likewise
	"internal/words":      0, // also for pkg
	"internal/buffer":     0, // also for pkg
	"internal/build":      0, // for both programs
	"internal/complaint":  0, // also for pkg
	"internal/certtest":   0, // certificates for tests
	"internal/fan":        0, // likewise
	"internal/fields":     0, // also for pkg
	"internal/jsonbytes":  0, // likewise
	"internal/golden":     0, // golden files for tests
	"internal/rightstest": 1, // who may use which endpoint, for tests
	"internal/s3test":     0, // an S3 service for tests
	"internal/lane":       0, // likewise
	"internal/logtest":    0, // log lines for tests
	"internal/config":     8,
	"internal/lookupd":    10,
	"internal/manual":     1,  // for both programs
	"internal/node":       12, // one node with its parts wired together
	"internal/nsqdfiles":  0,  // reads nsqd's data files
	"internal/signal":     0,  // also for pkg
	"internal/simtest":    2,  // for the tests in test/sim
	"internal/peertest":   0,  // a network in memory for tests
	"internal/vfstest":    2,  // a failing disk for tests
	"internal/testrand":   0,  // seeds of random tests

	"deploy": 0, // embedded files

	"cmd/brokerd":   13,
	"cmd/brokerctl": 12,
}

// sameFloor lists the deliberate imports within one floor.
var sameFloor = map[[2]string]string{
	{"pkg/vfs", "pkg/fate"}:                        "an error of the disk is given its fate where it arises",
	{"pkg/nsq", "internal/buffer"}:                 "a Reader takes its buffers from a pool",
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
	{"pkg/filter", "internal/jsonbytes"}:           "a header comes from outside",
	{"pkg/keys", "internal/jsonbytes"}:             "a body comes from outside",
	{"pkg/nsq", "internal/jsonbytes"}:              "a client's identity comes from outside",
	{"internal/nsqdfiles", "internal/jsonbytes"}:   "the files of nsqd come from outside",
	{"pkg/filter", "pkg/fate"}:                     "an expression that is refused has changed nothing",
	{"pkg/channel", "pkg/position"}:                "a State is stored as a position, which a package of its own encodes",
	{"pkg/topic", "pkg/positions"}:                 "a partition stores its positions, which a package of its own knows how to",
	{"pkg/host", "pkg/quarantine"}:                 "a replica may be suspect or set aside, which a package of its own knows about",
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
	"github.com/spf13/cobra":           {"cmd/brokerctl", "cmd/brokerd", "internal/accessctl", "internal/backupctl", "internal/checks", "internal/generate", "internal/manual", "internal/settings", "internal/shell", "internal/snapshots", "internal/topicfile"},
	"github.com/hashicorp/":            {"pkg/meta/raftstore"},
	"go.etcd.io/bbolt":                 {"pkg/meta/raftstore"},
	"github.com/HdrHistogram/":         {"internal/measure", "tools/loadgen/"},
	"github.com/coreos/go-systemd/":    {"cmd/brokerd"},
	"github.com/pelletier/go-toml/":    {"internal/config", "cmd/brokerd"}, // nsqd's own file, for the stand-in
	"go.yaml.in/yaml/":                 {"internal/accessctl", "internal/topicfile", "internal/output"},
	"github.com/nsqio/go-nsq":          {"tools/loadgen/"},
	"github.com/google/go-cmp/":        {"internal/golden"},
	"go.opentelemetry.io/proto/":       {"pkg/otlp"},
	"google.golang.org/protobuf/":      {"pkg/otlp"},
	"github.com/minio/":                {"pkg/backup/s3store"},
	module + "/pkg/backup/s3store":     {"internal/backupctl"}, // it has the library
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
