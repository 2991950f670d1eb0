package v1

import (
	"net/http"
	"strconv"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// operateAPI is what an operator does to nodes, leaders and replicas. Every
// change is answered with what it was about, as it is then.
type operateAPI struct{ of Operator }

func (v operateAPI) route(t *API) {
	t.handle("GET /v1/cluster/balance", v.planBalance)
	t.handle("POST /v1/cluster/balance", v.startBalance)
	t.handle("GET /v1/cluster/raft", v.raft)
	t.handle("POST /v1/cluster/raft/transfer", v.transferController)
	t.handle("GET /v1/nodes/{node}", v.node)
	t.handle("POST /v1/nodes/{node}/drain", v.drain)
	t.handle("POST /v1/nodes/{node}/undrain", v.undrain)
	t.handle("POST /v1/nodes/{node}/decommission", v.decommission)
	t.handle("DELETE /v1/nodes/{node}", v.remove)
	t.handle("GET /v1/topics/{topic}/partitions/{partition}", v.partition)
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/transfer", v.transfer)
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/elect", v.elect)
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/move", v.move)
	t.handle("DELETE /v1/topics/{topic}/partitions/{partition}/move", v.cancelMove)
	t.handle("GET /v1/topics/{topic}/partitions/{partition}/repair", v.copies)
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/repair", v.repair)
}

// nodeOf reads the node that the path names.
func nodeOf(r *http.Request) meta.NodeID { return meta.NodeID(r.PathValue("node")) }

func (v operateAPI) node(r *http.Request) (answer, error) {
	d, err := v.of.DescribeNode(r.Context(), nodeOf(r))
	if err != nil {
		return answer{}, err
	}
	return success(apiNodeDetail(d))
}

func (v operateAPI) drain(r *http.Request) (answer, error) {
	var req api.DrainNode
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	if err := v.of.DrainNode(r.Context(), nodeOf(r), req.Force, req.Stopping); err != nil {
		return answer{}, err
	}
	return v.node(r)
}

func (v operateAPI) undrain(r *http.Request) (answer, error) {
	if err := v.of.UndrainNode(r.Context(), nodeOf(r)); err != nil {
		return answer{}, err
	}
	return v.node(r)
}

func (v operateAPI) decommission(r *http.Request) (answer, error) {
	var req api.DecommissionNode
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	if err := v.of.DecommissionNode(r.Context(), nodeOf(r), req.Force); err != nil {
		return answer{}, err
	}
	return v.node(r)
}

func (v operateAPI) remove(r *http.Request) (answer, error) {
	return done(v.of.RemoveNode(r.Context(), nodeOf(r)))
}

// placeOf reads the topic and the partition that the path names.
func placeOf(r *http.Request) (topic string, partition int, err error) {
	topic = r.PathValue("topic")
	if !meta.ValidTopicName(topic) {
		return "", 0, directory.ErrInvalidTopic
	}
	p, err := partitionOf(r.PathValue("partition"))
	if err != nil {
		return "", 0, err
	}
	return topic, *p, nil
}

func (v operateAPI) partition(r *http.Request) (answer, error) {
	topic, i, err := placeOf(r)
	if err != nil {
		return answer{}, err
	}
	d, err := v.of.DescribePartition(r.Context(), topic, i)
	if err != nil {
		return answer{}, err
	}
	return success(apiPartitionDetail(d))
}

// onPartition carries out a change of the partition that the path names.
func (v operateAPI) onPartition(r *http.Request, change func(topic string, i int) error) (answer, error) {
	topic, i, err := placeOf(r)
	if err == nil {
		err = change(topic, i)
	}
	if err != nil {
		return answer{}, err
	}
	return v.partition(r)
}

func (v operateAPI) transfer(r *http.Request) (answer, error) {
	var req api.TransferLeader
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	return v.onPartition(r, func(topic string, i int) error {
		return v.of.TransferLeader(r.Context(), topic, i, meta.NodeID(req.To))
	})
}

func (v operateAPI) elect(r *http.Request) (answer, error) {
	var req api.ElectLeader
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	if req.Unclean && req.To == "" {
		return answer{}, api.Errorf(api.CodeInvalid, "an unclean election requires the node whose replica to keep")
	}
	return v.onPartition(r, func(topic string, i int) error {
		return v.of.ElectLeader(r.Context(), topic, i, meta.NodeID(req.To), req.Unclean)
	})
}

func (v operateAPI) move(r *http.Request) (answer, error) {
	var req api.MovePartition
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
	target := make([]meta.NodeID, len(req.Replicas))
	for i, id := range req.Replicas {
		target[i] = meta.NodeID(id)
	}
	return v.onPartition(r, func(topic string, i int) error {
		return v.of.MovePartition(r.Context(), topic, i, target)
	})
}

func (v operateAPI) cancelMove(r *http.Request) (answer, error) {
	return v.onPartition(r, func(topic string, i int) error { return v.of.CancelMove(r.Context(), topic, i) })
}

func (v operateAPI) planBalance(*http.Request) (answer, error) {
	return success(apiBalance(v.of.PlanBalance(), false))
}

func (v operateAPI) startBalance(r *http.Request) (answer, error) {
	var req api.StartBalance
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
	if !req.Leaders && !req.Replicas || req.Limit < 0 {
		return answer{}, api.Errorf(api.CodeInvalid, "set leaders, replicas or both; limit must not be negative")
	}
	b, err := v.of.StartBalance(r.Context(), req.Leaders, req.Replicas, req.Limit)
	if err != nil && len(b.Leaders)+len(b.Moves) == 0 {
		return answer{}, err
	}
	return success(apiBalance(b, true)) // what could not be done shows in the next plan
}

func (v operateAPI) raft(r *http.Request) (answer, error) {
	return success(apiRaft(v.of.Raft(r.Context())))
}

func (v operateAPI) transferController(r *http.Request) (answer, error) {
	if err := v.of.TransferController(r.Context()); err != nil {
		return answer{}, err
	}
	return v.raft(r)
}

// apiNodeDetail describes a node.
func apiNodeDetail(d operate.NodeDetail) api.NodeDetail {
	out := api.NodeDetail{
		Node: apiNode(d.NodeInfo), Hostname: d.Hostname, HTTPSAddress: d.HTTPSAddress, Removable: d.Removable,
		Partitions: make([]api.NodePartition, len(d.Partitions)), Left: apiProgress(d.Left), Troubles: apiTroubles(d.Troubles),
		DeletedTopics: d.Deleted, OnlyCopies: d.OnlyCopies,
	}
	for i, p := range d.Partitions {
		out.Partitions[i] = api.NodePartition(p)
	}
	return out
}

func apiProgress(p operate.Progress) api.Progress {
	return api.Progress{
		Leaders: p.Leaders, Replicas: p.Replicas, Moving: p.Moving,
		Bytes: p.Bytes, BytesPerSecond: p.BytesPerSecond, TimeLeft: api.Duration(p.TimeLeft), TimeLeftMS: milliseconds(p.TimeLeft),
	}
}

// apiPartitionDetail describes a partition.
func apiPartitionDetail(d operate.PartitionDetail) api.PartitionDetail {
	p := &d.Stats
	out := api.PartitionDetail{
		Partition: api.Partition{
			Topic: d.Topic, Partition: p.Partition, Leader: p.Leader, Epoch: uint64(p.Epoch), Replicas: p.Replicas, ISR: p.ISR,
			LogStart: uint64(p.LogStart), CommittedEnd: uint64(p.CommittedEnd), LogEnd: uint64(p.LogEnd), Bytes: p.Bytes,
			Adding: d.Adding, Removing: d.Removing,
		},
		Copies: make([]api.Copy, len(d.Copies)), Left: apiProgress(d.Left), Troubles: apiTroubles(d.Troubles),
	}
	for i, c := range d.Copies {
		a := api.Copy{
			Node: c.Node, InSync: c.InSync, Answered: c.Answered,
			LogStart: uint64(c.LogStart), CommittedEnd: uint64(c.CommittedEnd), LogEnd: uint64(c.LogEnd), Bytes: c.Bytes,
			Damaged: c.Damaged, Checking: c.Checking,
		}
		if !c.Checked.IsZero() {
			a.CheckedAt = &c.Checked
		}
		if f := c.Follower; f != nil {
			a.Seen, a.Connected, a.State, a.Acked, a.Lag, a.LagBytes = true, f.Connected, f.State, uint64(f.Acked), f.Lag, f.LagBytes
			a.BytesPerSecond, a.BehindFor, a.BehindForMS = f.BytesPerSecond, api.Duration(f.Behind), milliseconds(f.Behind)
		}
		out.Copies[i] = a
	}
	return out
}

// apiBalance describes a plan, or what was started of it.
func apiBalance(b operate.Balance, started bool) api.Balance {
	out := api.Balance{
		Nodes: make([]api.NodeLoad, len(b.Nodes)), Leaders: make([]api.LeaderMove, len(b.Leaders)), Moves: make([]api.Move, len(b.Moves)),
		Started: started,
	}
	for i, n := range b.Nodes {
		out.Nodes[i] = api.NodeLoad{
			ID: n.ID, State: api.NodeState(n.State), Zone: n.Zone, Leaders: n.Leaders, Preferred: n.Preferred, Replicas: n.Replicas,
		}
	}
	for i, l := range b.Leaders {
		out.Leaders[i] = api.LeaderMove{Topic: l.Topic, Partition: l.Partition, From: string(l.From), To: string(l.To)}
	}
	for i, m := range b.Moves {
		out.Moves[i] = api.Move{Topic: m.Topic, Partition: m.Partition, From: texts(m.From), To: texts(m.To)}
	}
	return out
}

// apiRaft describes the agreement on metadata.
func apiRaft(i operate.RaftInfo) api.Raft {
	out := api.Raft{Leader: i.Leader, Term: i.Term, Voters: i.Voters, Tolerance: i.Tolerance, Members: make([]api.RaftMember, len(i.Members))}
	for k, m := range i.Members {
		a := api.RaftMember{ID: string(m.ID), Voter: m.Voter, Address: m.Address}
		if s := m.Stats; s != nil {
			a.Answered, a.Leader, a.Term, a.LastIndex, a.CommitIndex = true, s.IsLeader, s.Term, s.LastIndex, s.CommitIndex
			a.AppliedIndex, a.SnapshotIndex, a.LastContact, a.StoreBytes = s.AppliedIndex, s.SnapshotIndex, api.Duration(s.LastContact), s.StoreBytes
			a.LastContactMS = milliseconds(s.LastContact)
		}
		out.Members[k] = a
	}
	return out
}

// readOptionalJSON reads a body that may be left out.
func readOptionalJSON(r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return readJSON(r, into)
}

// troubleWords says of each kind of trouble what it means.
var troubleWords = map[string]string{
	"offline": "no in-sync replica is alive",
	"drain":   "no other in-sync replica is available to lead",
	"no_room": "no eligible node for the replica",
	"move":    "node of an added replica is down",
	"min_isr": "the in-sync replicas would fall below min_isr",
}

func apiTroubles(all []operate.Trouble) []api.Trouble {
	out := make([]api.Trouble, 0, len(all))
	for _, t := range all {
		what := troubleWords[string(t.Kind)]
		if what == "" {
			what = strconv.Quote(string(t.Kind))
		}
		out = append(out, api.Trouble{Kind: string(t.Kind), Topic: t.Topic, Partition: t.Partition, Nodes: texts(t.Nodes), What: what})
	}
	return out
}
