package broker

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// All nodes list an operator's action at any node, with the name of that node.
func TestAuditRecordsAreOnEveryNode(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	l.at("n2").Recorder.RecordAct(t.Context(), meta.Act{At: 7, Actor: "10.0.0.9:1", Verb: "DELETE /v1/topics/t", Status: 204}, fate.Uncertain)
	// Without a majority the audit log cannot be written either: the request does not
	// wait for that.
	l.at("n2").Recorder.RecordAct(t.Context(), meta.Act{At: 8, Actor: "10.0.0.9:1", Verb: "DELETE /v1/topics/u", Status: 503}, fate.Refused)
	// One that the next metadata leader may have made is recorded.
	l.at("n2").Recorder.RecordAct(t.Context(), meta.Act{At: 9, Actor: "10.0.0.9:1", Verb: "DELETE /v1/topics/v", Status: 503}, fate.Uncertain)
	for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
		acts := l.at(id).Recorder.Journal().Acts()
		if len(acts) != 2 || acts[1].Verb != "DELETE /v1/topics/v" || acts[0].Node != "n2" || acts[0].Verb != "DELETE /v1/topics/t" || acts[0].Index == 0 {
			t.Errorf("%s: %+v", id, acts)
		}
	}
}
