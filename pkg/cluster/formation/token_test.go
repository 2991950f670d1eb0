package formation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

func (w *world) token(node string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tokens[node]
}

// give has a node join with a token.
func (w *world) give(node, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[node] = token
}

// change changes access in the world's metadata.
func (w *world) change(c access.Change) {
	w.t.Helper()
	if _, err := w.leader().open().Propose(w.t.Context(), meta.ChangeAccess{Change: c}); err != nil {
		w.t.Fatal(err)
	}
}

// create creates a join token of a node, valid for a time from now; negative: it has expired.
func (w *world) create(node string, lasts time.Duration) (token string) {
	w.t.Helper()
	token, stored, err := access.NewJoinToken(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now()
	stored.Node, stored.Created, stored.Expires = node, now.Add(-time.Hour).UnixNano(), now.Add(lasts).UnixNano()
	w.change(access.Change{Verb: access.CreateJoinToken, Join: &stored})
	return token
}

// refused starts a node and returns why it was not admitted.
func (w *world) refused(node string) error {
	w.t.Helper()
	p := w.start(node)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		w.t.Errorf("%s was not refused", node)
	}
	return w.kill(node)
}

// members returns the ids of the members.
func (w *world) members() (ids []string) {
	for _, m := range w.leader().open().Members().Configuration().Members {
		ids = append(ids, string(m.ID))
	}
	return ids
}

// joins returns the joins by token, and the refused ones, in the audit log.
func (w *world) joins() (admitted, refused []*meta.Act) {
	w.t.Helper()
	j := meta.JournalOf(w.leader().open().View())
	for _, a := range j.Acts() {
		switch {
		case a.Status < http.StatusBadRequest && !strings.HasPrefix(a.Request, "join token "): // see TestChangesOfTheMembersAreRecorded
		case a.Verb != meta.ActJoin:
			w.t.Errorf("audit log: %+v", a)
		case a.Status < http.StatusBadRequest:
			admitted = append(admitted, a)
		default:
			refused = append(refused, a)
		}
	}
	told := 0
	for _, e := range j.Events(0) {
		if e.Kind == "join_refused" {
			told++
		}
	}
	if told != len(refused) {
		w.t.Errorf("%d refused joins, %d events", len(refused), told)
	}
	return admitted, refused
}

// TestOtherRefusalsAreRecorded: not only those for a token. A node that may succeed later is not refused for good.
func TestOtherRefusalsAreRecorded(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		n := w.process("n1").node
		for _, r := range []request{
			{Kind: askJoin, From: identity{"n2", "n1", 7}, Fresh: true},
			{Kind: askJoin, From: identity{"n3", "n3", 8}},
			{Kind: askJoin, From: identity{meta.NodeID(strings.Repeat("x", 1<<13)), strings.Repeat("y", 1<<13), 9}},
		} {
			r.Levels = level.Supported()
			if err := n.letIn(t.Context(), r.From.Node, r); !final(err) {
				t.Errorf("%.10s: %v", r.From.Node, err)
			}
		}
		for i := range 2 * maxRefusals { // strangers do not fill the audit log
			name := meta.NodeID(fmt.Sprint("s", i))
			_ = n.letIn(t.Context(), name, request{Kind: askJoin, From: identity{name, "s", 7}})
		}
		_, refused := w.joins()
		if len(refused) != maxRefusals {
			t.Fatalf("%d refused joins in the audit log", len(refused))
		}
		if refused[0].Status != http.StatusConflict || !strings.Contains(refused[0].Request, ErrAddressTaken.Error()) {
			t.Errorf("audit log: %+v", refused[0])
		}
	})
}

func TestJoinTokenAdmitsItsNodeOnce(t *testing.T) {
	three := []string{"n1", "n2", "n3"}
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		for _, name := range three {
			w.start(name)
		}
		w.formed(3, 3)
		w.change(access.Change{Verb: access.RequireJoinTokens})
		token, late := w.create("n4", time.Hour), w.create("n5", -time.Minute)
		for _, test := range []struct{ node, token, want string }{
			{"n4", "", "join token required; on a member of the cluster, run brokerctl node join-token create n4 --out FILE, and set join-token-file of n4 to that file"},
			{"n5", token, "join token is for another node"},
			{"n5", late, "join token has expired"},
			{"n5", "unreadable", os.ErrPermission.Error()},
			{"n5", "gone", os.ErrNotExist.Error()},
			{"n5", "gone", "brokerctl node join-token create n5"},
			{"n5", "something else", "not a join token"},
		} {
			w.give(test.node, test.token)
			if err := w.refused(test.node); !errors.Is(err, ErrJoinToken) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s with %q: %v", test.node, test.token, err)
			}
		}
		if got := w.members(); len(got) != 3 {
			t.Fatalf("members %v", got)
		}
		_, refused := w.joins()
		if len(refused) != 4 { // n5 without its file counts once
			t.Errorf("refused joins in the audit log: %+v", refused)
		}
		for _, a := range refused {
			if a.Identity != "node "+a.Object || a.Status != http.StatusForbidden || !strings.Contains(a.Request, "no valid join token: ") || strings.Contains(a.Request, token) || strings.Contains(a.Request, late) {
				t.Errorf("audit log: %+v", a)
			}
		}
		w.give("n4", token)
		w.start("n4")
		w.formed(4, 4)
		acts, _ := w.joins()
		if len(acts) != 1 || acts[0].Verb != "JOIN" || acts[0].Object != "n4" || acts[0].Identity != "node n4" || acts[0].Request != "join token "+token[4:20] {
			t.Errorf("audit log: %+v", acts)
		}
		if err := w.kill("n4"); err != nil {
			t.Fatal(err)
		}
		w.give("n4", "") // a member needs none, and not only at its address
		w.start("n4")
		w.formed(4, 4)

		// A member that has lost its data is new. It keeps its vote until it is admitted.
		if err := w.kill("n4"); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(w.dir + "/n4"); err != nil {
			t.Fatal(err)
		}
		if err := w.refused("n4"); !errors.Is(err, ErrJoinToken) {
			t.Errorf("without data, no token: %v", err)
		}
		w.give("n4", token)
		if err := w.refused("n4"); !errors.Is(err, ErrJoinToken) || !strings.Contains(err.Error(), "join token was already used") {
			t.Errorf("without data, the old token: %v", err)
		}
		if c := w.leader().open().Members().Configuration(); len(c.Voters()) != 4 {
			t.Errorf("voters %v", c.Voters())
		}
		w.give("n4", w.create("n4", time.Hour))
		w.start("n4")
		w.formed(4, 4)
	})
}

// TestJoinTokenOutlastsRefusals: a node that is refused for another reason, or that has to ask
// again, does not lose its token.
func TestJoinTokenOutlastsRefusals(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.change(access.Change{Verb: access.RequireJoinTokens})
		n, s := w.process("n1").node, w.process("n1").open()
		token := w.create("n2", time.Hour)
		who := identity{"n2", "n2", 7}
		proof, err := joiner(n.cluster(), who).Prove(token)
		if err != nil {
			t.Fatal(err)
		}
		join := func(who identity) error {
			return n.admit(t.Context(), s, candidate{identity: who, fresh: true}, plea{"n2", &proof})
		}
		used := func() bool { return raftstore.AccessOf(s).JoinTokens()[0].Used != 0 }
		if err := n.admit(t.Context(), s, candidate{identity: identity{"n2", "n1", 7}, fresh: true}, plea{"n2", &proof}); !errors.Is(err, ErrAddressTaken) || used() {
			t.Errorf("at an address that is in use: %v", err)
		}
		if err := n.admit(t.Context(), s, candidate{identity: who}, plea{"n2", &proof}); !errors.Is(err, failure.Removed) || used() {
			t.Errorf("with data of a cluster: %v", err)
		}
		for range 2 {
			if err := join(who); err != nil || !used() {
				t.Errorf("the node: %v", err)
			}
		}
		if err := join(identity{"n2", "n2", 8}); !errors.Is(err, ErrJoinToken) {
			t.Errorf("another process at its address: %v", err)
		}
		if acts, refused := w.joins(); len(acts) != 1 || len(refused) != 0 {
			t.Errorf("audit log: %+v, refused %+v", acts, refused)
		}
	})
}

func TestJoinTokenIsNotRequiredByDefault(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		token := w.create("n3", time.Hour)
		w.start("n2")
		w.formed(2, 2)
		w.give("n3", token)
		w.start("n3")
		w.formed(3, 3)
		w.give("n4", token) // of another node: not required, so without effect
		w.start("n4")
		w.formed(4, 4)
		w.give("n5", "gone")
		w.start("n5")
		w.formed(5, 5)
		all := raftstore.AccessOf(w.leader().open()).JoinTokens()
		if acts, refused := w.joins(); len(all) != 1 || all[0].Used == 0 || len(acts) != 1 || len(refused) != 0 {
			t.Errorf("tokens %+v, %d and %d entries in the audit log", all, len(acts), len(refused))
		}
	})
}
