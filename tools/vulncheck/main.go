// Command vulncheck fails if a program of this repository can reach a known vulnerability of a module or of Go. Where the
// database cannot be asked, it warns and succeeds: a machine without a network checks everything else.
//
// It asks https://vuln.go.dev, or -db, which may be a file URL of a copy.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

// patience bounds the question whether the database can be asked.
const patience = 10 * time.Second

// errReachable: there is a finding that a program can reach.
var errReachable = errors.New("reachable vulnerabilities: update the modules, or Go")

func main() {
	root := flag.String("root", ".", "`DIR` of the module")
	db := flag.String("db", "https://vuln.go.dev", "`URL` of the database")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	if err := run(context.Background(), *root, *db, patterns, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

// run checks packages of a module.
func run(ctx context.Context, root, db string, patterns []string, out io.Writer) error {
	if err := reach(ctx, db); err != nil {
		fmt.Fprintf(out, "WARNING: not checked for known vulnerabilities: %v\n", err)
		return nil
	}
	var found, complaints bytes.Buffer
	cmd := scan.Command(ctx, append([]string{"-C", root, "-db", db, "-format", "json"}, patterns...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &found, &complaints, os.Environ()
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	switch {
	case err != nil && stopped(err.Error()+complaints.String()):
		fmt.Fprintf(out, "WARNING: not checked for known vulnerabilities: the database stopped answering: %v\n", err)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %s", err, complaints.String())
	}
	return report(&found, out)
}

// stopped reports whether a complaint of govulncheck is about the database.
func stopped(complaint string) bool {
	return strings.Contains(complaint, "fetching vulnerabilities") || strings.Contains(complaint, "creating client")
}

// reach reports why the database cannot be asked.
func reach(ctx context.Context, db string) error {
	if strings.HasPrefix(db, "file:") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(db, "/")+"/index/db.json", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", db, res.Status)
	}
	return nil
}

// message is one of the values that govulncheck writes; the others are not needed.
type message struct {
	OSV *struct {
		ID, Summary string
	} `json:"osv"`
	Finding *finding `json:"finding"`
}

// finding is a vulnerability, and how it is reached: the vulnerable symbol first. It is reported for the module, for
// its package and for each function that is called.
type finding struct {
	OSV          string `json:"osv"`
	FixedVersion string `json:"fixed_version"`
	Trace        []struct {
		Module, Version, Package, Function string
	} `json:"trace"`
}

// report prints the findings, each vulnerability once, and returns errReachable if a function of one is called.
func report(in io.Reader, out io.Writer) error {
	summaries := map[string]string{}
	reached, known := map[string]*finding{}, map[string]*finding{}
	for d := json.NewDecoder(in); ; {
		var m message
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return list(summaries, reached, known, out)
		case err != nil:
			return fmt.Errorf("read what govulncheck found: %w", err)
		case m.OSV != nil:
			summaries[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil && len(m.Finding.Trace) > 0:
			known[m.Finding.OSV] = m.Finding
			if m.Finding.Trace[0].Function != "" {
				reached[m.Finding.OSV] = m.Finding
			}
		}
	}
}

func list(summaries map[string]string, reached, known map[string]*finding, out io.Writer) error {
	ids := make([]string, 0, len(known))
	for id := range known {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f, kind := known[id], "not reached"
		if reached[id] != nil {
			f, kind = reached[id], "REACHED"
		}
		at := f.Trace[0]
		fmt.Fprintf(out, "%-11s %s: %s@%s, fixed in %s: %s", kind, id, at.Module, at.Version, f.FixedVersion, summaries[id])
		if at.Function != "" {
			last := f.Trace[len(f.Trace)-1]
			fmt.Fprintf(out, " (%s.%s, called from %s.%s)", at.Package, at.Function, last.Package, last.Function)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%d known vulnerabilities, %d of them reached\n", len(known), len(reached))
	if len(reached) > 0 {
		return errReachable
	}
	return nil
}
