package accessctl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

// parseRule reads a rule: RIGHT [TOPIC[/CHANNEL]].
func parseRule(words []string) (api.Rule, error) {
	if len(words) == 0 || len(words) > 2 {
		return api.Rule{}, fmt.Errorf("a rule is a right and an optional pattern, such as publish 'orders*', not %q", strings.Join(words, " "))
	}
	r := api.Rule{Right: words[0]}
	if len(words) == 2 {
		topic, channel, both := strings.Cut(words[1], "/")
		r.Topic, r.Channel = topic, channel
		if r.Right == "subscribe" && !both {
			r.Channel = "*"
		}
	}
	return r, nil
}

// ruleText writes a rule as parseRule reads it.
func ruleText(r api.Rule) string {
	return access.Rule{Right: access.Right(r.Right), Topic: r.Topic, Channel: r.Channel}.String()
}

func rulesText(rules []api.Rule) string { return strings.Join(listing.Names(rules, ruleText), ", ") }

func (s *Shell) users() *cobra.Command {
	return s.group("user", "Manage users: who may be granted something", s.createUser(), s.listUsers(), s.deleteUser(), s.passwd())
}

func (s *Shell) createUser() *cobra.Command {
	var grants []string
	var password string
	var admin bool
	var req api.CreateUser
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a user",
		Long: `Create a user, with rules (--grant), a password, and the names of the user's client certificates. Programs
need a token instead of a password: brokerctl token create. The first administrator is created with the
secret that a node has written to the file first-administrator in its data directory.`,
		Example: `  brokerctl --token-file /var/lib/brokerd/first-administrator user create ops --admin --password-file ops.password
  brokerctl user create billing --grant 'subscribe orders/billing' --grant 'publish invoices*'`,
		Args: s.need(1, 1, "a NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if req.Name = args[0]; admin {
				req.Rules = append(req.Rules, api.Rule{Right: "admin"})
			}
			for _, text := range grants {
				r, err := parseRule(strings.Fields(text))
				if err != nil {
					return usage(err)
				}
				req.Rules = append(req.Rules, r)
			}
			if password != "" {
				var err error
				if req.Password, err = s.secret(cmd, password); err != nil {
					return err
				}
			}
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.User, error) { return c.CreateUser(ctx, req) },
				func(u *api.User) output.Answer { return said(u, u.Name, "user %s created", u.Name) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&admin, "admin", false, "grant the right admin, which includes all others")
	f.StringArrayVar(&grants, "grant", nil, "grant a `RULE`, such as 'publish orders*'; see acl grant; repeat to add more")
	f.StringArrayVar(&req.Certificates, "certificate", nil, "`NAME` in the user's client certificates; repeat to add more")
	passwordFlag(f, &password, "")
	return cmd
}

func passwordFlag(f *pflag.FlagSet, path *string, value string) {
	f.StringVar(path, "password-file", value, "read the password from the first line of a `FILE`; - is standard input")
}

func (s *Shell) listUsers() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the users and their rules",
		Args:  s.need(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, someUsers(nil), func(users []api.User) output.Answer {
				a := usersAnswer(users)
				a.Header = []string{"NAME", "PASSWORD", "TOKENS", "RULES", "CERTIFICATES"}
				for _, u := range users {
					a.Rows = append(a.Rows, []any{u.Name, yesOr(u.HasPassword), u.Tokens, rulesText(u.Rules), strings.Join(u.Certificates, ",")})
				}
				return a
			})
		},
	}
}

// someUsers requests the named users, or all.
func someUsers(names []string) func(context.Context, api.Access) ([]api.User, error) {
	return func(ctx context.Context, c api.Access) ([]api.User, error) {
		if len(names) == 0 {
			return c.Users(ctx)
		}
		u, err := c.User(ctx, names[0])
		return []api.User{*u}, err
	}
}

func usersAnswer(users []api.User) output.Answer {
	return output.Answer{Object: api.UserList{Users: users}, Lines: listing.Lines(users), Names: listing.Names(users, func(u api.User) string { return u.Name })}
}

func (s *Shell) deleteUser() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a user and the user's tokens",
		Args:  s.need(1, 1, "a NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if dry {
				return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.User, error) {
					return c.PlanDeleteUser(ctx, name)
				}, deletionAnswer)
			}
			if err := s.Confirm(cmd, "deleting user", name); err != nil {
				return err
			}
			return s.remove(cmd, "user", name, "deleted", func(ctx context.Context, c api.Access) error { return c.DeleteUser(ctx, name) })
		},
	}
	dryRunFlag(cmd, &dry)
	return cmd
}

func dryRunFlag(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "check whether it is possible, and show what would be removed, without changing anything")
}

// deletionAnswer says what the deletion of a user would remove.
func deletionAnswer(u *api.User) output.Answer {
	return said(u, u.Name, "dry run, nothing was changed: user %s would be deleted, with %d rules (%s), %d certificate names and %d tokens (%s)",
		u.Name, len(u.Rules), rulesText(u.Rules), len(u.Certificates), len(u.Revoked), revoked(u))
}

// revocationAnswer says whose token would be revoked.
func revocationAnswer(u *api.User) output.Answer {
	return said(u, u.Name, "dry run, nothing was changed: token %s of user %s would be revoked; the user keeps %d tokens", revoked(u), u.Name, u.Tokens-len(u.Revoked))
}

// revoked names the tokens that would become invalid.
func revoked(u *api.User) string {
	return strings.Join(listing.Names(u.Revoked, func(t api.Token) string { return strings.TrimSpace(t.ID + " " + t.Description) }), ", ")
}

func (s *Shell) passwd() *cobra.Command {
	var password string
	cmd := &cobra.Command{
		Use:     "passwd NAME",
		Short:   "Change the password of a user",
		Long:    `Change the password of a user to the first line of standard input, which a terminal does not show, or of a file.`,
		Example: `  brokerctl user passwd ops --password-file new.password`,
		Args:    s.need(1, 1, "a NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := s.secret(cmd, password)
			if err != nil {
				return err
			}
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.User, error) { return c.SetPassword(ctx, args[0], secret) },
				func(u *api.User) output.Answer { return said(u, u.Name, "password of user %s changed", u.Name) })
		},
	}
	passwordFlag(cmd.Flags(), &password, "-")
	return cmd
}

func (s *Shell) tokens() *cobra.Command {
	return s.group("token", "Manage tokens: what programs show for a user", s.createToken(), s.listTokens(), s.revokeToken())
}

func (s *Shell) createToken() *cobra.Command {
	var req api.CreateToken
	var expires, out string
	cmd := &cobra.Command{
		Use:   "create USER",
		Short: "Create a token of a user, and print it once",
		Long: `Create a token of a user. It is printed once, or written to a file that only its owner may read (--out);
the cluster stores a hash of it. NSQ clients send it with AUTH (auth_secret), HTTP clients as
Authorization: Bearer.`,
		Example: `  brokerctl token create billing --expires 2160h --description 'billing, production' --out billing.token`,
		Args:    s.need(1, 1, "a USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if expires != "" {
				d, err := units.ParseDuration(expires)
				if err != nil || d < time.Millisecond {
					return shell.Usage("--expires %q is not a duration above 0, such as 720h", expires)
				}
				req.ExpiresInMS = d.Milliseconds()
			}
			if err := newFile(out); err != nil {
				return err
			}
			t, err := ask(s, cmd, func(ctx context.Context, c api.Access) (*api.Token, error) { return c.CreateToken(ctx, args[0], req) })
			if err != nil {
				return err
			}
			secret := t.Secret
			if out != "" {
				t.Secret = ""
			}
			return hand(s, cmd, out, secret, said(t, t.ID, "token %s of user %s written to %s", t.ID, t.User, out))
		},
	}
	f := cmd.Flags()
	f.StringVar(&expires, "expires", "", "how long it is valid, a `DURATION` such as 720h (default: it does not expire)")
	f.StringVar(&req.Description, "description", "", "purpose of the token, as `TEXT`")
	f.StringVar(&out, "out", "", "write the token to a new `FILE` of mode 0600 instead of showing it")
	return cmd
}

// newFile refuses a file for a secret that cannot be created: before there is a secret that could
// not be kept. "": no file.
func newFile(out string) error {
	if out == "" {
		return nil
	}
	if _, err := os.Lstat(out); err == nil {
		return shell.Usage("--out: %s exists", out)
	}
	if _, err := os.Stat(filepath.Dir(out)); err != nil {
		return shell.Usage("--out: %w", err)
	}
	return nil
}

func (s *Shell) listTokens() *cobra.Command {
	return &cobra.Command{
		Use:   "list [USER]",
		Short: "List the tokens of a user, or all, without their secrets",
		Args:  s.need(0, 1, "at most a USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			tokens, err := ask(s, cmd, func(ctx context.Context, c api.Access) ([]api.Token, error) {
				return c.Tokens(ctx, strings.Join(args, ""))
			})
			if err != nil {
				return err
			}
			a := output.Answer{Object: api.TokenList{Tokens: tokens}, Lines: listing.Lines(tokens), Names: listing.Names(tokens, func(t api.Token) string { return t.ID })}
			a.Header = []string{"ID", "USER", "CREATED", "EXPIRES", "DESCRIPTION"}
			for _, t := range tokens {
				until := "never"
				switch {
				case t.Expired:
					until = "expired"
				case t.Expires != nil:
					until = output.Time(*t.Expires)
				}
				a.Rows = append(a.Rows, []any{t.ID, t.User, output.Time(t.Created), until, t.Description})
			}
			return s.Show(cmd, a)
		},
	}
}

func (s *Shell) revokeToken() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token: connections that use it end",
		Args:  s.need(1, 1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := idOf(args[0], "brk_")
			if dry {
				return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.User, error) { return c.PlanRevokeToken(ctx, id) }, revocationAnswer)
			}
			return s.remove(cmd, "token", id, "revoked", func(ctx context.Context, c api.Access) error { return c.RevokeToken(ctx, id) })
		},
	}
	dryRunFlag(cmd, &dry)
	return cmd
}

// idOf returns the id of a token that is named by its id, or given whole: its secret is not sent.
func idOf(text, prefix string) string {
	if rest, whole := strings.CutPrefix(text, prefix); whole {
		text, _, _ = strings.Cut(rest, "_")
	}
	return text
}

func (s *Shell) rules() *cobra.Command {
	return s.group("acl", "Manage rules: what users may do", s.changeRules(true), s.changeRules(false), s.listRules())
}

func (s *Shell) changeRules(grant bool) *cobra.Command {
	verb, short, past := "revoke", "Take a right from a user", "revoked from"
	if grant {
		verb, short, past = "grant", "Give a user a right", "granted to"
	}
	return &cobra.Command{
		Use:   verb + " USER RULE...",
		Short: short,
		Long: short + `. A RULE is a right and what it is about: publish TOPIC; subscribe TOPIC/CHANNEL (without a
channel: all), to consume messages and see them; manage TOPIC, to create, alter, pause, empty and delete it and its
channels; read, to see the state and the statistics of the whole cluster; admin, all of that and everything
else. In TOPIC and CHANNEL, * stands for any characters. What no rule grants is denied while access control
is on.`,
		Example: `  brokerctl acl ` + verb + ` billing publish 'invoices*'
  brokerctl acl ` + verb + ` billing subscribe orders/billing
  brokerctl acl ` + verb + ` prometheus read`,
		Args: s.need(2, 3, "a USER and a RULE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := parseRule(strings.Fields(strings.Join(args[1:], " "))) // one text, quoted, is a rule, too
			if err != nil {
				return usage(err)
			}
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.User, error) {
				change := c.Revoke
				if grant {
					change = c.Grant
				}
				return change(ctx, args[0], []api.Rule{r})
			}, func(u *api.User) output.Answer { return said(u, u.Name, "%s %s user %s", ruleText(r), past, u.Name) })
		},
	}
}

func (s *Shell) listRules() *cobra.Command {
	return &cobra.Command{
		Use:   "list [USER]",
		Short: "List the rules of a user, or of all",
		Args:  s.need(0, 1, "at most a USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return answer(s, cmd, someUsers(args), func(users []api.User) output.Answer {
				a := usersAnswer(users)
				a.Header = []string{"USER", "RIGHT", "TOPIC", "CHANNEL"}
				for _, u := range users {
					for _, r := range u.Rules {
						a.Rows = append(a.Rows, []any{u.Name, r.Right, r.Topic, r.Channel})
					}
				}
				return a
			})
		},
	}
}

func (s *Shell) access() *cobra.Command {
	none := s.need(0, 0, "no argument")
	status := &cobra.Command{
		Use: "status", Short: "Show whether access control is on", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.AccessStatus, error) { return c.Status(ctx) }, statusAnswer)
		},
	}
	whoami := &cobra.Command{
		Use: "whoami", Short: "Show the user of the credentials, and the user's rules", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.Self, error) { return c.Self(ctx) }, func(self *api.Self) output.Answer {
				a := output.Answer{Object: self, Names: []string{self.User}, Said: "no user: the request had no known credential", Result: true}
				if self.User != "" {
					a.Said = fmt.Sprintf("user %s: %s", self.User, rulesText(self.Rules))
				}
				return a
			})
		},
	}
	return s.group("access", "Switch access control on or off", s.enableAccess(), s.disableAccess(), status, whoami)
}

func statusAnswer(status *api.AccessStatus) output.Answer {
	word := "off"
	if status.Enabled {
		word = "on"
	}
	text := fmt.Sprintf("access control is %s: %s, %s", word, words.Plural(status.Users, "user"), words.Plural(status.Tokens, "token"))
	if !status.Administrator {
		text += "\nthere is no administrator with a credential that does not expire: it cannot be enabled"
	}
	if status.ClusterPortOpen {
		text += "\nthe cluster port is open, any process that reaches it could join as a node: it cannot be enabled without --new-cluster-secret"
	}
	if status.ClusterSecretFile != "" {
		text += fmt.Sprintf("\nnodes that join need the new cluster secret: set cluster-secret-file there to a copy of %s", status.ClusterSecretFile)
	}
	return output.Answer{Object: status, Names: []string{word}, Said: text, Result: true}
}

func (s *Shell) disableAccess() *cobra.Command {
	return &cobra.Command{
		Use: "disable", Short: "Disable access control: allow everyone to do everything", Long: `Allow everyone who can reach a node to do everything. Users, tokens and rules are kept.`,
		Args: s.need(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.AccessStatus, error) { return c.Disable(ctx) }, statusAnswer)
		},
	}
}

func (s *Shell) enableAccess() *cobra.Command {
	var req api.EnableAccess
	cmd := &cobra.Command{
		Use: "enable", Short: "Deny what no rule grants", Long: `Deny what no rule grants, from now on, on all nodes: the command returns once all that are not down have
applied it, or fails and names those that have not. Connections without AUTH end with their next command, and their
clients connect again. It is refused while there is no administrator with a credential that does not expire, and while
the cluster port is open: a process that joins as a node may do everything.`,
		Args: s.need(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(s, cmd, func(ctx context.Context, c api.Access) (*api.AccessStatus, error) { return c.Enable(ctx, req) }, statusAnswer)
		},
	}
	cmd.Flags().BoolVar(&req.NewClusterSecret, "new-cluster-secret", false,
		"close an open cluster port of a single node first: create a secret in its data directory, which nodes that join later need")
	return cmd
}
