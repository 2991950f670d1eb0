package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newClusterRaftCommand(g *globals) *cobra.Command {
	var transfer bool
	cmd := &cobra.Command{
		Use:   "raft",
		Short: "Show the metadata voters and their progress",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := g.client.Raft
			if transfer {
				ask = g.client.TransferController
			}
			return answer(cmd, g, ask, func(r *api.Raft) view {
				return view{
					object: r,
					lines:  listing.Lines(r.Members),
					names:  listing.Names(r.Members, func(m api.RaftMember) string { return m.ID }),
					text:   func(p *page) { raftText(p, r) },
				}
			})
		},
	}
	cmd.Flags().BoolVar(&transfer, "transfer", false, "transfer metadata leadership and the controller role to another voter first")
	return cmd
}

func raftText(p *page, r *api.Raft) {
	leader := "no leader"
	if r.Leader != "" {
		leader = "leader " + r.Leader
	}
	p.line("%s   term %d   %s, %s", leader, r.Term, plural(r.Voters, "voter"), tolerates(r.Tolerance))
	p.line("")
	t := newTable("NODE", "VOTER", "ROLE", "LAST", "COMMITTED", "APPLIED", "CONTACT", "ADDRESS", "+TERM", "+SNAPSHOT", "+STORE")
	for _, m := range r.Members {
		voter := voterText(m.Voter)
		if !m.Answered {
			t.row(m.ID, voter, "no answer", "", "", "", "", m.Address, "", "", "")
			continue
		}
		contact := age(m.LastContact)
		if m.LastContact < 0 {
			contact = "never"
		}
		t.row(m.ID, voter, roleOf(m.Leader), count(m.LastIndex), count(m.CommitIndex), count(m.AppliedIndex), contact, m.Address,
			m.Term, count(m.SnapshotIndex), words.Size(m.StoreBytes))
	}
	p.table(t)
}

// tolerates formats how many failures are tolerated.
func tolerates(n int) string {
	if n < 0 {
		return fmt.Sprintf("%d more must be up", -n)
	}
	return "tolerates " + plural(n, "failure")
}
