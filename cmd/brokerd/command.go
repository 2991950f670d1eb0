package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/manual"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

// done marks an error of a command itself. cobra's own errors are usage errors.
type done struct{ error }

func (d done) Unwrap() error { return d.error }

func finish(err error) error {
	if err == nil {
		return nil
	}
	return done{err}
}

// brokerd runs the command line of the broker itself.
func (p *program) brokerd(ctx context.Context, args []string) error {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	var finished done
	if err == nil || errors.As(err, &finished) {
		return err
	}
	return exitWith(exitUsage, fmt.Errorf("%w\nrun brokerd --help for commands and flags", err))
}

func (p *program) rootCommand() *cobra.Command {
	root := p.serveCommand()
	root.Use = "brokerd [flags]"
	root.Short = "brokerd is a clustered message broker compatible with NSQ"
	root.Long = root.Short + ".\n\nWithout a command it runs the broker. Every flag can also be set by an environment\nvariable (BROKERD_ plus the flag in capitals, dashes as underscores) or in the file\nnamed by --config (dashes as underscores)."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version
	root.SetVersionTemplate(versionLine() + "\n")
	serve := p.serveCommand()
	serve.Use, serve.Short = "serve [flags]", "Run the broker (default)"
	root.AddCommand(serve, p.configCommand(), p.logCommand(), p.positionsCommand(), p.recoverCommand(), &cobra.Command{
		Use: "man-pages DIR", Short: "Write the manual pages of brokerd into a directory", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return finish(manual.Write(root, manual.SectionAdmin, args[0]))
		},
	}, &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return finish(err)
		},
	})
	return root
}

// settingFlags collects the values given for the flag of each setting.
type settingFlags struct{ given []config.Assignment }

// flagValue is the flag of one setting. Its value is parsed later together with all others, so
// that all errors are reported at once.
type flagValue struct {
	setting config.Setting
	into    *settingFlags
}

func (f *flagValue) Set(text string) error {
	f.into.given = append(f.into.given, config.Assignment{Key: f.setting.Key, Value: text})
	return nil
}

func (f *flagValue) String() string { return f.setting.Default }

func (f *flagValue) Type() string {
	if f.setting.IsBool() {
		return "bool"
	}
	return f.setting.Type()
}

// addSettings gives cmd a flag for every setting.
func addSettings(cmd *cobra.Command) *settingFlags {
	var flags settingFlags
	var o config.Options
	for _, s := range o.Settings() {
		flag := cmd.Flags().VarPF(&flagValue{s, &flags}, s.Key, "", s.Doc)
		if s.IsBool() {
			flag.NoOptDefVal = "true"
		}
	}
	cmd.Flags().SortFlags = false
	return &flags
}

// load reads the configuration from all its sources.
func (p *program) load(flags *settingFlags) (config.Loaded, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return config.Loaded{}, fmt.Errorf("host name: %w", err)
	}
	loaded, err := config.Load(config.Input{
		Flags: slices.Clone(flags.given), Environ: p.environ, Hostname: hostname, ReadFile: os.ReadFile,
	})
	var problems config.Problems
	if err != nil && !errors.As(err, &problems) {
		return loaded, exitWith(exitConfig, err)
	}
	adoptNodeID(&loaded)
	return loaded, err
}

// adoptNodeID gives an unnamed node the name stored with its data, because the host name may have
// changed.
func adoptNodeID(loaded *config.Loaded) {
	o := &loaded.Options
	if loaded.Sources["node-id"] != "host name" {
		return
	}
	if id := raftstore.StoredNode(metaDir(o.DataDir)); id != "" {
		o.NodeID = string(id)
		loaded.Sources["node-id"] = "data directory"
	}
}

// metaDir is the metadata directory of a node.
func metaDir(dataDir string) string { return filepath.Join(dataDir, "meta") }

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{Args: cobra.NoArgs}
	flags := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return finish(p.serve(cmd.Context(), func() (config.Loaded, error) { return p.load(flags) }))
	}
	return cmd
}

// serve runs a node as brokerd.
func (p *program) serve(ctx context.Context, load func() (config.Loaded, error)) error {
	loaded, err := load()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	setLevel(level, loaded.Options.Process.LogLevel)
	out := newLogOut(p.stderr)
	defer out.flush()
	log := newLogger(out, p.stderr, loaded.Options.Process.LogFormat, level, lookupEnv(p.environ, "JOURNAL_STREAM"))
	if err := refuseNsqdsFiles(loaded.Options.DataDir); err != nil {
		return err
	}
	log.Info("starting", "version", version, "node", loaded.Options.NodeID, "pid", os.Getpid())
	return p.runNode(ctx, &process{
		loaded: loaded, again: load, log: log, level: level,
		greet: func(protocol, address string) { log.Info("listening", "protocol", protocol, "address", address) },
	})
}

// runNode completes a process with the program's settings, and runs it.
func (p *program) runNode(ctx context.Context, run *process) error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	run.hostname, run.signals, run.open = hostname, p.signals, p.open
	return run.run(ctx)
}

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check and print the configuration"}
	cmd.AddCommand(p.configCheckCommand(), p.configPrintCommand(), &cobra.Command{
		Use: "example", Short: "Print a configuration file template with all settings documented", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), config.Example())
			return finish(err)
		},
	})
	return cmd
}

func (p *program) configCheckCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Check a configuration file and the certificates it names",
		Long: `Check a configuration file and the certificates it names, together with the BROKERD_ variables of the
environment, as serve --config FILE would use them if started here. With --env-file, only the variables of that
file are used, as in a systemd service that names it as its EnvironmentFile.`,
		Example: `  brokerd config check --env-file /etc/default/brokerd /etc/brokerd/brokerd.toml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.readEnvironment(files); err != nil {
				return finish(err)
			}
			return finish(p.checkConfig(cmd.OutOrStdout(), args[0]))
		},
	}
	addEnvironmentFiles(cmd, &files)
	return cmd
}

func addEnvironmentFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "env-file", nil, "use the environment in `FILE`, in the format of systemd's EnvironmentFile, instead of this one; repeat for more")
}

// readEnvironment replaces the environment of the process by that of files, if any are given.
// Later files override earlier ones.
func (p *program) readEnvironment(files []string) error {
	if len(files) == 0 {
		return nil
	}
	p.environ = nil
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return exitWith(exitConfig, fmt.Errorf("--env-file: %w", err))
		}
		environ, err := config.ParseEnvironmentFile(name, string(text))
		if err != nil {
			return exitWith(exitConfig, err)
		}
		for _, v := range environ {
			variable, _, _ := strings.Cut(v, "=")
			p.environ = slices.DeleteFunc(p.environ, func(was string) bool { return strings.HasPrefix(was, variable+"=") })
			p.environ = append(p.environ, v)
		}
	}
	return nil
}

func (p *program) checkConfig(out io.Writer, name string) error {
	loaded, err := p.load(&settingFlags{given: []config.Assignment{{Key: "config", Value: name}}})
	if err != nil {
		return err
	}
	if _, err := loadCertificates(loaded.Options.TLS); err != nil {
		return err
	}
	if _, err := loadClusterCertificates(loaded.Options.Cluster.TLS, peer.Node(loaded.Options.NodeID)); err != nil {
		return err
	}
	with := ""
	if names := loaded.FromEnvironment(); len(names) > 0 {
		with = ", with " + strings.Join(names, ", ") + " of the environment"
	}
	_, err = fmt.Fprintf(out, "%s: ok%s\n", name, with)
	return err
}

func (p *program) configPrintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "print", Short: "Print the effective configuration as TOML", Args: cobra.NoArgs,
	}
	sources := cmd.Flags().Bool("sources", false, "show the source of each value")
	var files []string
	addEnvironmentFiles(cmd, &files)
	flags := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.readEnvironment(files); err != nil {
			return finish(err)
		}
		loaded, err := p.load(flags)
		if err != nil {
			return finish(err)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), loaded.Print(*sources))
		return finish(err)
	}
	return cmd
}
