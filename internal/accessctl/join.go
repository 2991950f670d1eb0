package accessctl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

// JoinTokens returns the commands about join tokens, for the group node.
func JoinTokens(s *Shell) *cobra.Command {
	cmd := s.group("join-token", "Admit new nodes by one-time tokens", createJoinToken(s), listJoinTokens(s), revokeJoinToken(s), requireJoinTokens(s))
	cmd.Long = `Admit new nodes by one-time tokens. Without join tokens, a node that has the cluster secret or a certificate of
the cluster's CA joins by itself. Once they are required, a node without data joins only with a token that was
created for its id: a new node, and a node that was replaced or has lost its data. Nodes with data start without. On
the new node, the setting join-token-file is the file that create has written.

All of these commands need the right admin, even while access control is off.`
	cmd.Example = `  brokerctl node join-token require
  brokerctl node join-token create n4 --out n4.join-token`
	return cmd
}

func createJoinToken(s *Shell) *cobra.Command {
	var req api.CreateJoinToken
	var expires, out string
	cmd := &cobra.Command{
		Use:   "create NODE",
		Short: "Create a token with which one node may join, once",
		Long: `Create a token with which the node with this id may join the cluster, once. Copy the file to the node, and set
join-token-file of the node to it; it is read when the node joins, and can be deleted afterwards. The token is a
private key: the node proves that it has it, and does not send it. The cluster stores the public key.`,
		Example: `  brokerctl node join-token create n4 --expires 1h --out n4.join-token`,
		Args:    s.need(1, 1, "a NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Node = args[0]
			if expires != "" {
				d, err := units.ParseDuration(expires)
				if err != nil || d < time.Millisecond {
					return shell.Usage("--expires %q is not a duration above 0, such as 1h", expires)
				}
				req.ExpiresInMS = d.Milliseconds()
			}
			if err := newFile(out); err != nil {
				return err
			}
			t, err := ask(s, cmd, func(ctx context.Context, c api.Access) (*api.JoinToken, error) { return c.CreateJoinToken(ctx, req) })
			if err != nil {
				return err
			}
			secret := t.Secret
			if out != "" {
				t.Secret = ""
			}
			return hand(s, cmd, out, secret, said(t, t.ID, "join token %s of node %s written to %s, valid until %s", t.ID, t.Node, out, output.Time(t.Expires)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&expires, "expires", "", "how long it is valid, a `DURATION` of at most 30 days (default 24h)")
	f.StringVar(&out, "out", "", "write the token to a new `FILE` of mode 0600 instead of showing it")
	return cmd
}

func listJoinTokens(s *Shell) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the join tokens, and whether nodes need one",
		Args:  s.need(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.JoinTokens, error) { return c.JoinTokens(ctx) }, joinTokensAnswer)
		},
	}
}

func joinTokensAnswer(all *api.JoinTokens) output.Answer {
	a := output.Answer{
		Object: all, Lines: listing.Lines(all.Tokens), Names: listing.Names(all.Tokens, func(t api.JoinToken) string { return t.ID }),
		Said: requiredText(all.Required), Result: true,
	}
	if len(all.Tokens) == 0 {
		return a
	}
	a.Header = []string{"ID", "NODE", "STATE", "CREATED", "EXPIRES", "USED"}
	for _, t := range all.Tokens {
		used := ""
		if t.Used != nil {
			used = output.Time(*t.Used)
		}
		a.Rows = append(a.Rows, []any{t.ID, t.Node, t.State, output.Time(t.Created), output.Time(t.Expires), used})
	}
	return a
}

func requiredText(required bool) string {
	if required {
		return "nodes without data need a join token to join the cluster"
	}
	return "join tokens are not required: nodes with the cluster secret or a certificate join without one; brokerctl node join-token require changes that"
}

func revokeJoinToken(s *Shell) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a join token; a node that has joined with it stays",
		Args:  s.need(1, 1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := idOf(args[0], "brj_")
			return s.remove(cmd, "join token", id, "revoked", func(ctx context.Context, c api.Access) error { return c.RevokeJoinToken(ctx, id) })
		},
	}
}

func requireJoinTokens(s *Shell) *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:   "require",
		Short: "Admit nodes without data only with a join token",
		Long: `From now on, the cluster admits a node without data only with a join token. --off ends that. Members stay
members.`,
		Args: s.need(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.JoinTokens, error) {
				return c.RequireJoinTokens(ctx, !off)
			},
				func(all *api.JoinTokens) output.Answer {
					name := "optional"
					if all.Required {
						name = "required"
					}
					return output.Answer{Object: all, Names: []string{name}, Said: requiredText(all.Required)}
				})
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "admit nodes without a join token again")
	return cmd
}

// hand gives a new secret to the user: on standard output, or in a new file, with what is said then.
func hand(s *Shell, cmd *cobra.Command, out, secret string, written output.Answer) error {
	if out == "" {
		return s.Show(cmd, output.Answer{Object: written.Object, Names: []string{secret}, Said: secret, Result: true})
	}
	if err := writePrivate(out, []byte(secret+"\n")); err != nil {
		return fmt.Errorf("token %s was created and could not be written, revoke it: %w", written.Names[0], err)
	}
	return s.Show(cmd, written)
}
