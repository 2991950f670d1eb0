package formation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// DefaultInterval is the default of Options.Interval.
const DefaultInterval = 200 * time.Millisecond

// callTimeout limits a call, and promiseTime is the duration of a promise: several calls. joinTimeout limits a request
// to join, during which the leader, through a member if need be, calls up to two addresses that may not answer.
const (
	callTimeout = time.Second
	joinTimeout = 3 * callTimeout
	promiseTime = 5 * time.Second
)

// A node that waits for its cluster logs a warning after remindAfter, and again after each
// remindEvery.
const (
	remindAfter = 10 * time.Second
	remindEvery = time.Minute
)

// Options configure a Node. Node, Address and Session are required, and Call unless the node stays
// alone.
type Options struct {
	Node    meta.NodeID
	Address string // what other nodes dial
	Session uint64 // differs for each process
	// Join are addresses of nodes that are or will be in the cluster, possibly including this
	// node's own.
	Join []string
	// Expect is the number of nodes that bootstrap a cluster once they see each other; 0: this
	// node only joins; 1 without Join: a single-node cluster.
	Expect int
	// HasState reports that the node already has metadata to open.
	HasState bool
	// Disk is the data directory of the metadata; nil: it is not compared.
	Disk *Disk
	// JoinToken returns the node's join token; "": it has none. It is called when the node joins a
	// cluster. nil: there is none. After an fs.ErrNotExist the node asks without a token.
	JoinToken func() (string, error)
	// Call makes the node at an address Handle a request, and returns its answer. If to is not "",
	// it calls no other node than that one. It returns ErrSelf for this node's own address.
	Call func(ctx context.Context, to meta.NodeID, address string, request []byte) ([]byte, error)
	// Open reports that the cluster port admits any process that reaches it: neither a secret nor a
	// certificate is required.
	// It is called for each request; nil: no.
	Open     func() bool
	Interval time.Duration // between two queries of the other nodes
	Logger   *slog.Logger  // optional
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Node makes a node a member of its cluster and keeps it one. Handle is safe for concurrent use at
// any time; Start must be called once, and Run after it.
type Node struct {
	o          Options
	self       identity
	admission  chan struct{}     // holds one: nodes are admitted one at a time
	told       map[string]string // address to the last logged refusal; used by Start
	refused    complaint.Rare[refusal]
	complaints complaint.Book
	compared   bool // enough members have answered about the node's disk; used by Start and Compared

	mu       sync.Mutex              // guards the fields below
	contacts map[meta.NodeID]contact // of a leader with the members without a vote; not changed, only replaced
	founders map[meta.NodeID]bool    // nodes with which this process has bootstrapped the cluster and that have no vote yet
	word     promises
	sees     []meta.NodeID
	store    *raftstore.Store // nil: not opened
	into     string           // cluster that admitted the node; "": none
	was      string           // cluster stored on disk when the store was opened; "": none
	why      string           // what the node waits for; "": nothing
	bound    []meta.NodeID    // nodes with which this one has bootstrapped its cluster, in this process
	moved    map[meta.NodeID]relocation
	// others are join addresses of other clusters; not changed, only replaced.
	others []string
}

// New returns a Node. It starts nothing.
func New(o Options) *Node {
	o = o.withDefaults()
	return &Node{
		o: o, self: identity{o.Node, o.Address, o.Session}, admission: make(chan struct{}, 1),
		told: map[string]string{}, moved: map[meta.NodeID]relocation{}, founders: map[meta.NodeID]bool{},
		word: promises{joined: o.HasState}, refused: complaint.Rare[refusal]{Every: refusalEvery, Most: maxRefusals},
	}
}

// Start opens the metadata: with state, at once, unless other nodes know that the disk is outdated; otherwise when the node has been admitted to a
// cluster, or may bootstrap one (bootstrap is true then). A bootstrap node has named the
// cluster when Start returns; other nodes may not know a leader yet. It waits for others until
// ctx ends. A permanent decision is returned as an error.
func (n *Node) Start(ctx context.Context, open func(bootstrap bool) (*raftstore.Store, error)) (*raftstore.Store, error) {
	if n.o.HasState {
		return n.current(ctx, open)
	}
	n.compared = true // it has no vote to repeat
	bootstrapped, err := n.form(ctx)
	if err != nil {
		return nil, fmt.Errorf("join or form cluster: %w", err)
	}
	s, err := n.opened(open(bootstrapped))
	if err != nil {
		return nil, err
	}
	if bootstrapped {
		err = s.WaitLeader(ctx)
		if err == nil {
			_, err = s.Init(ctx)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bootstrap cluster: %w", err), s.Close())
		}
	}
	return s, nil
}

// form returns when the node was admitted to a cluster (false), or may bootstrap one (true).
func (n *Node) form(ctx context.Context) (bootstrapped bool, err error) {
	w := wait{began: time.Now(), log: n.o.Logger}
	defer n.waitFor("")
	for {
		found, err := n.look(ctx)
		if err != nil {
			return false, err
		}
		st := next(n.self, n.o.Expect, len(n.o.Join)-found.self, found.answers)
		switch st.do {
		case stepStop:
			return false, st.err
		case stepFound:
			if n.gather(ctx, st.others) {
				n.o.Logger.Info("bootstrapping a new cluster", "nodes", len(st.others)+1)
				return true, nil
			}
			st.reason = "nodes have not agreed yet on who bootstraps the cluster"
		case stepJoin:
			err := n.join(ctx, st.others)
			if err == nil || final(err) {
				return false, err
			}
			st.reason = err.Error()
		case stepWait:
		}
		n.waitFor(w.describe(time.Now(), st.reason, found.silent))
		select {
		case <-time.After(n.o.Interval):
		case <-ctx.Done():
			return false, fmt.Errorf("%w: %s", context.Cause(ctx), st.reason)
		}
	}
}

// wait logs that a node waits for its cluster: when the reason changes, and periodically.
type wait struct {
	began  time.Time
	log    *slog.Logger
	reason string
	told   time.Time // of the last reminder; zero: none
}

// describe returns a text with the reason why the node waits and the addresses that do not
// respond, and logs it if due.
func (w *wait) describe(now time.Time, reason string, silent []string) string {
	text := reason
	if len(silent) > 0 {
		text += "; no answer from " + strings.Join(silent, ", ")
	}
	if text != w.reason {
		w.reason = text
		w.log.Info("waiting to join or form a cluster", "reason", text)
	}
	if late := now.Sub(w.began); late >= remindAfter && now.Sub(w.told) >= remindEvery {
		w.told = now
		w.log.Warn("still waiting to join or form a cluster; not serving", "reason", text, "for", late.Round(time.Second),
			"cure", "start the nodes listed in join, or correct join; a new cluster forms once bootstrap-expect nodes list each other in join")
	}
	return text
}

// waitFor stores what the node waits for.
func (n *Node) waitFor(why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.why = why
}

// Waiting returns what the node waits for before it can open its metadata; "" if nothing.
func (n *Node) Waiting() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.why
}

// sight is the result of querying all addresses.
type sight struct {
	answers []seen
	self    int      // addresses of this node
	silent  []string // addresses that did not respond
}

// look queries all addresses. It returns an error only if another attempt would not help.
func (n *Node) look(ctx context.Context) (found sight, err error) {
	for i, r := range n.askAll(ctx, n.o.Join, askWho) {
		switch {
		case errors.Is(r.err, ErrSelf):
			found.self++
		case r.err == nil:
			found.answers = append(found.answers, r.seen)
		case errors.Is(r.err, ErrNodeIDTaken):
			return found, r.err
		default:
			found.silent = append(found.silent, n.o.Join[i])
			level := slog.LevelDebug
			if text := r.err.Error(); !passing(r.err) && n.told[n.o.Join[i]] != text {
				n.told[n.o.Join[i]] = text
				level = slog.LevelWarn
			}
			n.o.Logger.Log(ctx, level, "address of join does not answer as a node of this cluster; retrying", "address", n.o.Join[i], "error", r.err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sees = n.sees[:0:0]
	for _, s := range found.answers {
		n.sees = append(n.sees, s.Node)
	}
	return found, nil
}

// passing reports whether an error is that of a node that is starting, stopping or isolated. Other
// errors, such as a refused certificate, need an operator.
func passing(err error) bool {
	var op *net.OpError
	switch {
	case errors.As(err, &op):
		return op.Op == "dial" || op.Op == "read" || op.Op == "write" // not of TLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, io.EOF):
		return true
	}
	return fate.Of(err) == fate.Uncertain
}

// gather requests promises and then bonds from the others, and reports whether this node may
// bootstrap a cluster with them.
func (n *Node) gather(ctx context.Context, others []seen) bool {
	addresses := addressesOf(others)
	if !n.give(askPromise, n.self) {
		return false
	}
	if !n.allGrant(ctx, addresses, askPromise) {
		n.give(askRelease, n.self)
		n.askAll(ctx, addresses, askRelease)
		return false
	}
	if !n.give(askBond, n.self) || !n.allGrant(ctx, addresses, askBond) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.word.joined = true
	for _, s := range others {
		n.bound = append(n.bound, s.Node)
		n.founders[s.Node] = true
	}
	return true
}

// Awaited returns the nodes with which a node has bootstrapped its cluster, and which were never seen
// in the metadata yet: a node that is removed later is not awaited. Another process of the node knows
// none. It may be called at any time.
func Awaited(n *Node) []meta.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.store == nil || len(n.bound) == 0 {
		return nil
	}
	v := n.store.View()
	n.bound = slices.DeleteFunc(n.bound, func(id meta.NodeID) bool { return v.Node(id) != nil })
	return slices.Clone(n.bound)
}

// join requests admission to the cluster of the members.
func (n *Node) join(ctx context.Context, members []seen) error {
	n.mu.Lock()
	free := n.word.join(n.self, members, time.Now())
	n.mu.Unlock()
	if !free {
		return errors.New("this node is promised to another bootstrap node")
	}
	proof, err := prove(&n.o, members[0].Cluster, n.self)
	var gone error
	if errors.Is(err, fs.ErrNotExist) { // the file may be deleted when the node has joined, and it may join again
		gone, err = err, nil
	}
	if err != nil {
		return err
	}
	for _, address := range addressesOf(members) {
		a := n.ask(ctx, "", address, request{Kind: askJoin, Fresh: true, Levels: level.Supported(), Proof: proof})
		if err = a.err; err == nil {
			n.o.Logger.Info("joined the cluster", "cluster", a.Cluster, "through", a.Node)
			if gone != nil {
				n.o.Logger.Warn("joined without the join token, whose file does not exist; the cluster does not require one", "error", gone)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.into = a.Cluster
			return nil
		}
		if gone != nil && errors.Is(err, ErrJoinToken) {
			err = fmt.Errorf("%w; %w", err, gone)
		}
		if final(err) {
			return err
		}
	}
	return err
}

func addressesOf(all []seen) (out []string) {
	for _, s := range all {
		out = append(out, s.Address)
	}
	return out
}

// reply is an answer, or the reason for its absence or refusal.
type reply struct {
	seen
	certain bool // as answer.Certain
	err     error
}

// askAll queries all addresses concurrently, and returns the replies in the order of the
// addresses.
func (n *Node) askAll(ctx context.Context, addresses []string, kind requestKind) []reply {
	out := make([]reply, len(addresses))
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() { out[i] = n.ask(ctx, "", address, request{Kind: kind}) })
	}
	wg.Wait()
	return out
}

func (n *Node) allGrant(ctx context.Context, addresses []string, kind requestKind) bool {
	return !slices.ContainsFunc(n.askAll(ctx, addresses, kind), func(r reply) bool { return r.err != nil })
}

// ask calls the node at an address, which must be the node to unless that is "".
func (n *Node) ask(ctx context.Context, to meta.NodeID, address string, r request) reply {
	r.Cluster = n.cluster()
	if r.From == (identity{}) {
		r.From = n.self
	}
	limit := callTimeout
	if r.Kind == askJoin {
		limit = joinTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, err := json.Marshal(r)
	if err != nil {
		return reply{err: err}
	}
	if text, err = n.o.Call(ctx, to, address, text); err != nil {
		return reply{err: err}
	}
	a, err := decode[answer](text)
	switch {
	case err != nil:
		return reply{err: err}
	case a.identity == n.self:
		return reply{err: ErrSelf}
	case to != "" && a.Node != to:
		return reply{err: fmt.Errorf("%w: %s answers as %s", ErrNotSender, to, complaint.Short(string(a.Node)))}
	case r.Cluster != "" && a.Cluster != "" && a.Cluster != r.Cluster:
		return reply{seen: a.seen, err: fmt.Errorf("%w: %s", ErrOtherCluster, a.Node)}
	}
	return reply{seen: a.seen, certain: a.Certain, err: a.err()}
}

// Store returns the metadata; nil if Start has not opened it.
func (n *Node) Store() *raftstore.Store {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.store
}

// Cluster returns the id of the cluster that the node is in or was admitted to; "" if none or
// unknown.
func (n *Node) Cluster() string {
	if id := n.cluster(); id != "" {
		return id
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.into
}

// cluster returns the id of the node's cluster; "" if none or unknown. Until a leader has
// committed the state, it is the id on disk.
func (n *Node) cluster() (id string) {
	n.mu.Lock()
	s, was := n.store, n.was
	n.mu.Unlock()
	if s != nil {
		s.Read(func(m *meta.State) { id = m.Cluster().ID })
	}
	return cmp.Or(id, was)
}
