package blackbox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
)

// Ids are distinct across topics, nodes, and incarnations of a topic. A message keeps its id across
// restarts, in every channel, and when it is peeked at.
func TestIDsOfMessagesAreDistinct(t *testing.T) {
	data := t.TempDir()
	n, other := startNodeOn(t, data), startNode(t)
	seen := map[string]string{}
	note := func(id, where string) {
		t.Helper()
		if was, again := seen[id]; again || id == "0000000000000000" {
			t.Errorf("%s and %s have the id %s", was, where, id)
		}
		seen[id] = where
	}
	first := map[string]string{}
	for where, at := range map[string]*node{"here": n, "there": other} {
		for _, topic := range []string{"a", "b"} {
			c := at.consumer(topic, "c", 10, "{}")
			for i := range 3 {
				at.post("/pub?topic="+topic, "x")
				m := c.message()
				note(m.id, fmt.Sprintf("%s %s %d", where, topic, i))
				if i == 0 {
					first[where+topic] = m.id
					c.send("TOUCH " + m.id + "\nREQ " + m.id + " 0\n")
					if again := c.message(); again.id != m.id || again.attempts != 2 {
						t.Errorf("%+v comes again as %+v", m, again)
					}
				}
				c.fin(m)
			}
			eventually(t, "all finished", func() bool { return at.channel(topic, "c").InFlight == 0 && at.channel(topic, "c").Depth == 0 })
		}
	}
	n.restart(n.stop)
	for _, topic := range []string{"a", "b"} {
		var peeked struct {
			Messages []struct{ ID string }
		}
		if err := json.Unmarshal([]byte(n.get("/v1/topics/"+topic+"/messages")), &peeked); err != nil || len(peeked.Messages) != 3 {
			t.Fatalf("%+v, %v", peeked, err)
		}
		var about struct {
			First string `json:"first_id"`
		}
		if err := json.Unmarshal([]byte(n.get("/v1/topics/"+topic)), &about); err != nil {
			t.Fatal(err)
		}
		begin, err := strconv.ParseUint(about.First, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range peeked.Messages {
			if want := fmt.Sprintf("%016x", begin+uint64(i)); m.ID != want || i == 0 && m.ID != first["here"+topic] {
				t.Errorf("%s/%d has the id %s after the restart, want %s, before it was %s", topic, i, m.ID, want, first["here"+topic])
			}
		}
	}
	n.post("/topic/delete?topic=a", "")
	c := n.consumer("a", "c", 10, "{}")
	n.post("/pub?topic=a", "x")
	m := c.message()
	note(m.id, "here a, made again")
	// an id of the topic's previous incarnation does not exist in this one
	c.send("FIN " + first["herea"] + "\n")
	c.fails("E_FIN_FAILED")
	c.fin(m)
	eventually(t, "the message is finished", func() bool { return n.channel("a", "c").InFlight == 0 })
}
