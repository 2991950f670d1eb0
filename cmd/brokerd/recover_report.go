package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// maxUnsureShown limits how many possibly uncommitted commands are printed. JSON has all of them.
const maxUnsureShown = 10

// lossReport lists what a recovery from one node loses, or may lose.
type lossReport struct {
	NodeID        string          `json:"node_id"`
	Voter         bool            `json:"voter"`
	ClusterID     string          `json:"cluster_id"`
	NewClusterID  string          `json:"new_cluster_id,omitempty"` // "": nothing was changed
	Written       time.Time       `json:"metadata_written,omitzero"`
	LastIndex     uint64          `json:"metadata_last_index"`
	Snapshot      bool            `json:"metadata_from_snapshot"`
	Newer         []string        `json:"not_in_snapshot"` // directories that are kept, and not served
	NewerDir      string          `json:"kept_in,omitempty"`
	LeftOut       []leftOut       `json:"left_out"`
	Partitions    []partitionLoss `json:"partitions"`
	Unsure        []unsureCommand `json:"not_known_to_be_agreed"`
	BelowMinISR   []string        `json:"topics_below_min_isr"`
	DeletedLost   []string        `json:"deleted_topics_lost"` // in the trash, and without a copy on the survivor
	wasUnfinished bool
}

type leftOut struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
}

// partitionLoss describes the survivor's replica of a partition.
type partitionLoss struct {
	Topic        string   `json:"topic"`
	Partition    int      `json:"partition"`
	Holds        string   `json:"holds"` // all, some or none
	ISR          []string `json:"isr"`
	Leader       string   `json:"leader"`
	LogStart     uint64   `json:"log_start"`
	CommittedEnd uint64   `json:"committed_end"`
	LogEnd       uint64   `json:"log_end"`
	Damaged      int      `json:"damaged"` // ranges of its log
}

type unsureCommand struct {
	Index   uint64          `json:"index"`
	Kind    string          `json:"kind"`
	Command json.RawMessage `json:"command"`
}

func newLossReport(dataDir string, s *cluster.Survivor) (*lossReport, error) {
	r := &lossReport{
		NodeID: string(s.Self.ID), Voter: s.Self.Voter, ClusterID: s.State.Cluster().ID, Written: s.Written.UTC(), LastIndex: s.LastIndex,
		LeftOut: []leftOut{}, Partitions: []partitionLoss{}, Unsure: []unsureCommand{}, Newer: []string{}, BelowMinISR: []string{}, DeletedLost: []string{}, wasUnfinished: s.Unfinished,
	}
	for _, m := range s.Others {
		r.LeftOut = append(r.LeftOut, leftOut{string(m.ID), m.Address, m.Voter})
	}
	for _, e := range s.Unsure {
		text, err := json.Marshal(e.Command)
		if err != nil {
			return nil, fmt.Errorf("metadata entry %d: %w", e.Index, err)
		}
		r.Unsure = append(r.Unsure, unsureCommand{e.Index, meta.NameOf(e.Command), text})
	}
	lost := meta.TrashOf(s.State).Without(s.Self.ID)
	for d := range meta.TrashOf(s.State).All() {
		if slices.Contains(lost, d.Topic.Incarnation) {
			r.DeletedLost = append(r.DeletedLost, d.Topic.Name)
		}
	}
	for _, p := range meta.SurvivorPartitions(s.State, s.Self.ID) {
		e, err := datadir.At(vfs.OS{}, dataDir).ReadCopy(p.Topic, p.Incarnation, p.Partition)
		if err != nil {
			return nil, err
		}
		r.Partitions = append(r.Partitions, partitionLoss{
			Topic: p.Topic, Partition: p.Partition, Holds: string(p.Holds), ISR: texts(p.ISR), Leader: string(p.Leader),
			LogStart: uint64(e.Start), CommittedEnd: uint64(e.CommittedEnd), LogEnd: uint64(e.End), Damaged: len(e.Damaged),
		})
		if n := len(r.BelowMinISR); p.MinISR > 1 && (n == 0 || r.BelowMinISR[n-1] != p.Topic) {
			r.BelowMinISR = append(r.BelowMinISR, p.Topic)
		}
	}
	return r, nil
}

// compare adds the data that is newer than the snapshot used as metadata.
func (r *lossReport) compare(newer datadir.Newer) (err error) {
	r.Snapshot, r.NewerDir = true, newer.Kept()
	r.Newer, err = newer.Paths()
	return err
}

func texts(ids []meta.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

func (r *lossReport) print(w io.Writer, output string) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	r.printMembers(w)
	r.printMetadata(w)
	fmt.Fprintln(w)
	if err := r.printPartitions(w); err != nil {
		return err
	}
	r.printEnd(w)
	return nil
}

func (r *lossReport) printMembers(w io.Writer) {
	var names []string
	for _, m := range r.LeftOut {
		names = append(names, fmt.Sprintf("%s (%s)", m.ID, m.Address))
	}
	fmt.Fprintf(w, "node      %s\ncluster   %s\n", r.NodeID, r.ClusterID)
	if len(names) > 0 {
		fmt.Fprintf(w, "lost      %s\n", strings.Join(names, ", "))
	}
	fmt.Fprintln(w)
}

// printPartitions prints every partition, and the meaning of each kind.
func (r *lossReport) printPartitions(w io.Writer) error {
	count := map[string]int{}
	var rows [][]string
	for _, p := range r.Partitions {
		count[p.Holds]++
		committed, end := "-", "-"
		if p.Holds != string(meta.HoldsNone) {
			committed, end = strconv.FormatUint(p.CommittedEnd, 10), strconv.FormatUint(p.LogEnd, 10)
		}
		row := []string{
			fmt.Sprintf("%s/%d", p.Topic, p.Partition), p.Holds, strings.Join(p.ISR, ","), committed, end, "",
		}
		if p.Damaged > 0 {
			row[5] = "log is corrupt: run brokerd log verify"
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		if err := table(w, "PARTITION\tHELD HERE\tISR\tCOMMITTED\tEND\tNOTE", rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "all   %4d partitions: %s was in sync, as far as is known here, and has every acknowledged message.\n", count["all"], r.NodeID)
	fmt.Fprintf(w, "some  %4d partitions: %s was not in sync. ACKNOWLEDGED MESSAGES NOT IN ITS LOG ARE LOST. They stay\n"+
		"           offline until: brokerctl partition elect TOPIC/PARTITION --unclean --to %s\n", count["some"], r.NodeID, r.NodeID)
	fmt.Fprintf(w, "none  %4d partitions: %s has no copy. ALL THEIR MESSAGES ARE LOST. They stay offline until the same command\n"+
		"           recreates them empty.\n", count["none"], r.NodeID)
	if len(r.DeletedLost) > 0 {
		fmt.Fprintf(w, "Deleted topics that can no longer be restored, because %s has no copy: %s\n", r.NodeID, strings.Join(r.DeletedLost, " "))
	}
	return nil
}

// printMetadata prints the uncertainties of the node's metadata.
func (r *lossReport) printMetadata(w io.Writer) {
	if r.Snapshot {
		fmt.Fprintf(w, "%s cannot know what happened after the snapshot, whose last entry is %d. ALL LATER CHANGES ARE LOST: topics,\n"+
			"channels, settings and in-sync sets. If %s was removed from an in-sync set since then, messages acknowledged after\n"+
			"that are lost as well, even in partitions listed under \"all\".\n"+
			"Users, rules, tokens and whether access control is on are those of the snapshot: TOKENS THAT WERE REVOKED SINCE ARE\n"+
			"VALID AGAIN. Check brokerctl access status, user list, acl list and token list, and revoke them again.\n",
			r.NodeID, r.LastIndex, r.NodeID)
		if len(r.Newer) > 0 {
			fmt.Fprintf(w, "\nNot in the snapshot, NOT SERVED from now on and kept in %s:\n  %s\n", r.NewerDir, strings.Join(r.Newer, "\n  "))
		}
		return
	}
	fmt.Fprintf(w, "%s cannot know what the other nodes did after its metadata was last written, at %s, entry %d.\n"+
		"Topics, channels and in-sync sets are as of then: ALL LATER CHANGES MADE WITHOUT %s ARE LOST. If %s was removed\n"+
		"from an in-sync set since then, messages acknowledged after that are lost as well, even in partitions listed under\n"+
		"\"all\".\n", r.NodeID, r.Written.Format(time.RFC3339), r.LastIndex, r.NodeID, r.NodeID)
	if !r.Voter {
		fmt.Fprintf(w, "%s is not a voter: the voters may have committed changes that never reached it.\n", r.NodeID)
	}
	if len(r.Unsure) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d changes at the end of its log may not have been committed. Other nodes may never have received them. They\n"+
		"count as committed from now on:\n", len(r.Unsure))
	for i, c := range r.Unsure {
		if i == maxUnsureShown {
			fmt.Fprintf(w, "  and %d more (-o json lists all)\n", len(r.Unsure)-i)
			break
		}
		fmt.Fprintf(w, "  %d %s %s\n", c.Index, c.Kind, c.Command)
	}
}

// printEnd prints what was done and the next steps.
func (r *lossReport) printEnd(w io.Writer) {
	fmt.Fprintln(w)
	if r.NewClusterID == "" {
		if r.wasUnfinished {
			fmt.Fprintln(w, "A recovery of this directory was interrupted: repeat it with --yes-lose-what-is-missing.")
			return
		}
		fmt.Fprintln(w, "Nothing was changed. To recover and lose the missing data, add --yes-lose-what-is-missing")
		return
	}
	fmt.Fprintf(w, "%s is now a single-node cluster with id %s.\n"+
		"1. Make sure that the lost nodes cannot start with their old data: move their data directories away.\n"+
		"2. Start %s with its usual command line.\n"+
		"3. Start further nodes with empty data directories and --join.\n", r.NodeID, r.NewClusterID, r.NodeID)
	if len(r.BelowMinISR) > 0 {
		fmt.Fprintf(w, "Until replicas are in sync again, %d topics with min-isr above 1 deliver messages but refuse publishes. To publish\n"+
			"with one replica: brokerctl topic alter TOPIC --min-isr 1\n", len(r.BelowMinISR))
	}
}
