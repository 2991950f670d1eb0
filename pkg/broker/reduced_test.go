package broker

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// A topic with a small retention-bytes kept what was published between two rounds of retention, several times what it
// says, on the leader and on the followers.
func TestLogsStayNearTheirRetentionBetweenRounds(t *testing.T) {
	l := newLan(t, func(o *Options) { o.RetentionInterval = time.Hour }, "n1", "n2", "n3")
	const bound = 1 << 20
	config := meta.TopicConfig{Partitions: 1, Replicas: 3, RetentionBytes: bound}.WithDefaults(3, false)
	if _, err := l.store.Propose(t.Context(), meta.CreateTopic{Name: "t", Config: config, Assignment: [][]meta.NodeID{{"n1", "n2", "n3"}}}); err != nil {
		t.Fatal(err)
	}
	l.inSync("t", 0, 3)
	body := string(make([]byte, 64<<10))
	for range 5 * bound / len(body) {
		l.mustPut("t", 0, body)
	}
	for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
		l.eventually("the log of "+string(id)+" is small", func() bool {
			return l.at(id).Host.Lookup("t").Held(0).Replica.Log().Bytes() <= bound+bound/2
		})
	}
}
