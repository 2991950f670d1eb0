package topicfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// maxFile is the maximum size of a file, in bytes.
const maxFile = 16 << 20

// commands are the commands in a shell.
type commands struct{ *shell.Shell }

// Commands returns the commands, for the group topic.
func Commands(s *shell.Shell) []*cobra.Command {
	h := commands{s}
	return []*cobra.Command{h.exportCommand(), h.importCommand()}
}

func (h commands) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export [TOPIC]",
		Short: "Print the settings of topics and their channels, for topic import",
		Long: `Print the settings of all topics and channels, or of one topic, as YAML, or with -o json as JSON. Settings
that were left open (the number of replicas, for example) are not in it. Ephemeral topics and channels, messages and
positions are not exported: see brokerctl backup.`,
		Example: `  brokerctl topic export > topics.yaml
  brokerctl topic export orders -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return shell.Usage("topic export requires at most one TOPIC")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			f, err := h.export(cmd.Context(), names)
			if err != nil {
				return err
			}
			var out strings.Builder
			if err := write(&out, f); err != nil {
				return err
			}
			return h.Show(cmd, output.Answer{
				Object: f, Lines: listing.Lines(f.Topics), Names: listing.Names(f.Topics, func(t Topic) string { return t.Name }),
				Said: strings.TrimSuffix(out.String(), "\n"), Result: true,
			})
		},
	}
}

func (h commands) export(ctx context.Context, names []string) (*File, error) {
	f := &File{Topics: []Topic{}}
	all, err := shell.Request(ctx, h.Shell, func(ctx context.Context, c *api.Client) ([]api.Topic, error) { return c.Topics(ctx) })
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t api.Topic) bool { return t.Name == name }) {
			return nil, api.Errorf(failure.NotFound, "topic %q not found", name)
		}
	}
	for i := range all {
		t := &all[i]
		if t.Ephemeral || len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		var channels []*api.Channel
		for k := range t.Channels {
			if t.Channels[k].Ephemeral {
				continue
			}
			ch, err := h.channel(ctx, t.Name, t.Channels[k].Name)
			if err != nil {
				return nil, err
			}
			if ch != nil {
				channels = append(channels, ch)
			}
		}
		f.Topics = append(f.Topics, exported(t, channels))
	}
	return f, nil
}

// channel returns a channel; nil: there is none.
func (h commands) channel(ctx context.Context, topic, name string) (*api.Channel, error) {
	ch, err := shell.Request(ctx, h.Shell, func(ctx context.Context, c *api.Client) (*api.Channel, error) { return c.Channel(ctx, topic, name) })
	if api.CodeOf(err) == failure.NotFound {
		return nil, nil //nolint:nilnil // documented
	}
	return ch, err
}

func (h commands) importCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Create and alter topics and channels as in a file of topic export",
		Long: `Create the topics and channels of a file, YAML or JSON as topic export prints it, and change the settings that
differ; - is standard input. A repeated import changes nothing. Settings that the file does not name, and topics and
channels that are not in it, stay as they are: nothing is deleted. New channels start like those of channel create.

Each change is a request of its own: if one fails, those before it have been made, and repeating the command continues.
An alteration of replicas adds or removes replicas of a few partitions at a time; repeat the import until no change is
left. --dry-run asks the cluster whether it would accept each change.`,
		Example: `  brokerctl topic import topics.yaml --dry-run
  brokerctl topic export --context staging | brokerctl topic import - --context prod`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return shell.Usage("topic import requires a FILE, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := read(args[0], cmd.InOrStdin())
			if err != nil {
				return shell.Usage("%w", err)
			}
			steps, err := h.plan(cmd.Context(), f)
			if err != nil {
				return err
			}
			for i, s := range steps {
				do := s.do
				if dryRun {
					do = s.check
				}
				if do == nil {
					continue
				}
				_, err := shell.Request(cmd.Context(), h.Shell, func(ctx context.Context, c *api.Client) (any, error) { return nil, do(ctx, c) })
				if err != nil {
					if dryRun {
						return fmt.Errorf("%s would be refused: %w", s.Object, err)
					}
					err = fmt.Errorf("%s: %w", s.Object, err)
					if i == 0 {
						return err
					}
					return h.Partial(cmd.Context(), err, fmt.Sprintf("%d of %d changes made", i, len(steps)))
				}
			}
			return h.Show(cmd, imported(steps, dryRun))
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be changed")
	return cmd
}

func imported(steps []Step, dryRun bool) output.Answer {
	a := output.Answer{
		Object: struct {
			DryRun  bool   `json:"dry_run"`
			Changes []Step `json:"changes"`
		}{dryRun, append([]Step{}, steps...)},
		Lines: listing.Lines(steps), Names: listing.Names(steps, func(s Step) string { return s.Object }), Result: true,
	}
	if a.Said = words.Plural(len(steps), "change"); dryRun {
		a.Said = "dry run: " + a.Said
	}
	if len(steps) > 0 {
		a.Header = []string{"OBJECT", "CHANGE"}
	}
	for _, s := range steps {
		a.Rows = append(a.Rows, []any{s.Object, s.Change})
	}
	return a
}

// read reads a file; - is standard input.
func read(path string, stdin io.Reader) (*File, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	f, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s is no file of topic export: %w", path, err)
	}
	return f, nil
}

// plan compares a file with the cluster.
func (h commands) plan(ctx context.Context, f *File) ([]Step, error) {
	now := existing{map[string]*api.Topic{}, map[string]*api.Channel{}}
	for i := range f.Topics {
		want := &f.Topics[i]
		t, err := shell.Request(ctx, h.Shell, func(ctx context.Context, c *api.Client) (*api.Topic, error) { return c.Topic(ctx, want.Name) })
		if api.CodeOf(err) == failure.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		now.topics[want.Name] = t
		for k := range want.Channels {
			ch, err := h.channel(ctx, want.Name, want.Channels[k].Name)
			if err != nil {
				return nil, err
			}
			if ch != nil {
				now.channels[want.Name+"/"+ch.Name] = ch
			}
		}
	}
	return planOf(f, now)
}
