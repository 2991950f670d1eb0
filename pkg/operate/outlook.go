package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Opening is a node that is joining its cluster. Its methods are safe for concurrent use.
type Opening interface {
	// Store returns the metadata, which may have no leader; nil if it is not open yet.
	Store() *raftstore.Store
	// Answers reports whether there is a connection to another node.
	Answers(id meta.NodeID) bool
	// Waiting returns what the node waits for before it can open its metadata; "" if nothing.
	Waiting() string
}

// Outlook answers operators on a node that waits for its cluster and is not a broker yet: from
// its disk, which may be outdated, and from which nodes respond. Its methods are safe for
// concurrent use.
type Outlook struct {
	self meta.NodeID
	of   Opening

	mu   sync.Mutex        // guards what follows; one goroutine at a time reads the disk
	disk *raftstore.Stored // as last read; nil if it has not been read yet
}

// NewOutlook returns the Outlook of the node self.
func NewOutlook(self meta.NodeID, of Opening) *Outlook { return &Outlook{self: self, of: of} }

// view is the known state at one moment.
type view struct {
	store   *raftstore.Store // nil if not open
	members raftstore.Configuration
	leader  meta.NodeID // "" if none is known
}

func (o *Outlook) look() view {
	v := view{store: o.of.Store()}
	if v.store == nil {
		return v
	}
	v.members = v.store.Members().Configuration()
	v.leader, _ = v.store.Leader()
	return v
}

// stored returns the metadata on disk. It reads the disk only if the log has grown since the last
// time: this takes a second for about 10,000 topics, and delays the start.
func (o *Outlook) stored(v view) *meta.State {
	if v.store == nil {
		return &meta.State{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.disk == nil || o.disk.LastIndex != v.store.Members().LastIndex() {
		if read, err := v.store.Stored(); err == nil { // otherwise it is being written, so there is a leader
			o.disk = read
		}
	}
	if o.disk == nil {
		return &meta.State{}
	}
	return o.disk.State
}

// there reports whether a node is present, as known on this node.
func (o *Outlook) there(id meta.NodeID) bool { return id == o.self || o.of.Answers(id) }

// silent returns the members that do not respond, by id.
func (o *Outlook) silent(v view) (out []string) {
	for _, m := range v.members.Members {
		if !o.there(m.ID) {
			out = append(out, string(m.ID))
		}
	}
	return out
}

// Cluster describes the cluster. A node that does not respond is shown as down.
func (o *Outlook) Cluster() api.Cluster {
	v := o.look()
	return clusterOf(o.stored(v), o.self, v.leader, v.members, o.there)
}

// Topics returns the topics on disk. A partition whose leader is not known to be present is shown
// without a leader.
func (o *Outlook) Topics() []*meta.Topic {
	var out []*meta.Topic
	for t := range o.stored(o.look()).Topics() {
		now := *t
		now.Partitions = slices.Clone(t.Partitions)
		for i := range now.Partitions {
			if p := &now.Partitions[i]; p.Leader == o.self || !o.there(p.Leader) {
				p.Leader = ""
			}
		}
		out = append(out, &now)
	}
	return out
}

// Ready returns what the node waits for.
func (o *Outlook) Ready() []health.Reason {
	v := o.look()
	reasons := o.waits(v)
	if v.store != nil {
		if full := v.store.Members().FullDisk(); full != "" {
			reasons = append(reasons, health.Reason{Code: "metadata_disk_full", Count: 1, What: "metadata disk full: " + full})
		}
	}
	return reasons
}

func (o *Outlook) waits(v view) []health.Reason {
	missing := -formation.Tolerance(v.members, o.there)
	switch {
	case v.store == nil && o.of.Waiting() != "":
		return []health.Reason{{Code: "starting", Count: 1, What: "waiting to join or form a cluster: " + o.of.Waiting()}}
	case v.store == nil:
		return []health.Reason{{Code: "starting", Count: 1, What: "loading data from disk and contacting the cluster"}}
	case v.leader != "":
		return []health.Reason{{Code: "starting", Count: 1, What: "registering with the cluster"}}
	case missing > 0:
		return []health.Reason{{Code: "metadata_quorum", Count: missing, What: fmt.Sprintf("waiting for a majority of the %d voters: %d more must be up, no answer from %s",
			len(v.members.Voters()), missing, strings.Join(o.silent(v), " "))}}
	}
	return []health.Reason{{Code: "no_controller", Count: 1, What: "waiting for the election of a metadata leader"}}
}

// ClusterHealth judges the cluster from this node's view only.
func (o *Outlook) ClusterHealth(context.Context) health.Report {
	v := o.look()
	f := health.NewFindings()
	for _, id := range o.silent(v) {
		f.Add("nodes_silent", "nodes do not answer", id)
	}
	if len(v.members.Members) > 0 {
		noteAgreement(f, v.members, o.there)
	}
	if v.leader == "" {
		f.Add("no_controller", "no metadata leader, nothing can be created or changed", "seen from "+string(o.self))
	}
	for _, r := range o.Ready() {
		if !f.Has(r.Code) {
			f.Add(r.Code, r.What, "on "+string(o.self))
		}
	}
	return f.Report()
}

// Raft describes the metadata's Raft group as known on this node.
func (o *Outlook) Raft(context.Context) api.Raft {
	v := o.look()
	return raftOf(v.leader, v.members, o.there, func(id meta.NodeID) (api.RaftMember, bool) {
		if id != o.self {
			return api.RaftMember{}, false
		}
		return raftMember(v.store.Stats()), true
	})
}
