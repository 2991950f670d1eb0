package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/test/steps"
)

// example is a fenced block of README.md to run, with the expected output, if the document shows
// it.
type example struct {
	lang, code string
	want       string
	hasWant    bool
	alone      bool // it starts the brokers that it needs
}

// runMark is the line before the fence of a block to run. The next block of the language "text" is
// its output. A block with aloneMark starts its own brokers, and is run if a cluster is tested.
const (
	runMark   = "<!-- run -->"
	aloneMark = "<!-- run alone -->"
)

// examples returns the blocks of a document to run.
func examples(markdown string) ([]example, error) {
	var found []example
	var code []string
	lang, inside, marked, alone := "", false, false, false
	for line := range strings.SplitSeq(markdown, "\n") {
		switch {
		case !inside && strings.TrimSpace(line) == runMark:
			marked = true
		case !inside && strings.TrimSpace(line) == aloneMark:
			marked, alone = true, true
		case !inside && strings.HasPrefix(line, "```"):
			lang, inside, code = strings.TrimPrefix(line, "```"), true, nil
		case inside && line == "```":
			inside = false
			text := strings.Join(code, "\n") + "\n"
			switch {
			case marked:
				found = append(found, example{lang: lang, code: text, alone: alone})
				marked, alone = false, false
			case lang == "text" && len(found) > 0 && !found[len(found)-1].hasWant:
				found[len(found)-1].want, found[len(found)-1].hasWant = text, true
			}
		case inside:
			code = append(code, line)
		}
	}
	if inside || marked {
		return nil, errors.New("a block to run has no end")
	}
	return found, nil
}

// readme runs the examples of README.md in order, with one broker started as in the document, from
// the root of the repository.
func readme(e env) (string, error) {
	all := steps.Need(examples(string(steps.Need(os.ReadFile(filepath.Join(e.root, "README.md"))))))
	if len(all) == 0 {
		steps.Fail("no examples to run")
	}
	count := 0
	if e.nodes > 1 {
		count = runAllAlone(e, all)
	}
	name, dataFlag := "brokerd", "--data-dir"
	if e.nodes > 1 {
		name, dataFlag = "nsqd", "--data-path"
	}
	ran, err := runServed(e, all, name, dataFlag, filepath.Join(e.scratch, "data"))
	return fmt.Sprintf("%d of %d examples pass", count+ran, len(all)), err
}

// runAllAlone runs the blocks that start the brokers that they need, and counts them.
func runAllAlone(e env, all []example) (count int) {
	for i, x := range all {
		if !x.alone {
			continue
		}
		count++
		if out, err := runAlone(e, i, x); err != nil {
			steps.Fail("block %d: %w\n%s\nprinted:\n%s", i+1, err, x.code, out)
		}
	}
	return count
}

// runServed runs the other blocks, if there are any, with one broker under the given name, and counts them.
func runServed(e env, all []example, name string, args ...string) (count int, err error) {
	if !slices.ContainsFunc(all, func(x example) bool { return !x.alone }) {
		return 0, nil
	}
	s := serve(e, name, args...)
	for i, x := range all {
		if x.alone {
			continue
		}
		count++
		out, err := ended(func() (string, error) { return runExample(e, i, x) })
		if err == nil && x.hasWant && out != x.want {
			err = errors.New("prints something else")
		}
		if err != nil {
			return count, fmt.Errorf("block %d: %w\n%s\nprinted:\n%s\nexpected:\n%s\n%s", i+1, errors.Join(err, s.Stop()), x.code, out, x.want, s.LogEnd())
		}
	}
	return count, s.Stop()
}

// runAlone runs a shell block that starts brokers, and stops them.
func runAlone(e env, i int, x example) (string, error) {
	for _, port := range usualPorts {
		steps.Must(mustBeFree("127.0.0.1:" + port))
	}
	dir := filepath.Join(e.scratch, fmt.Sprintf("example%d", i+1))
	steps.Must(os.MkdirAll(dir, 0o755))
	steps.Must(os.Symlink(filepath.Join(e.root, "bin"), filepath.Join(dir, "bin")))
	var out bytes.Buffer
	cmd := command(e.ctx, dir, &out, "bash", "-euo", "pipefail", "-c", "trap 'jobs=$(jobs -p); [[ -z $jobs ]] || kill $jobs; wait' EXIT\n"+x.code)
	cmd.Env = withPrograms(e)
	err := cmd.Run()
	return out.String(), err
}

// usualPorts are those that the document gives three nodes.
var usualPorts = []string{"4150", "4151", "4152", "4161", "4250", "4251", "4252", "4261", "4350", "4351", "4352", "4361"}

// runExample runs one block and returns its output.
func runExample(e env, i int, x example) (string, error) {
	dir := filepath.Join(e.scratch, fmt.Sprintf("example%d", i+1))
	steps.Must(os.MkdirAll(dir, 0o755))
	var out bytes.Buffer
	cmd := command(e.ctx, cmp.Or(e.work, e.root), &out, "bash", "-euo", "pipefail", "-c", x.code)
	switch x.lang {
	case "sh":
		cmd.Env = withPrograms(e)
	case "go":
		steps.Must(write(dir, goModule(e, x.code)))
		cmd = command(e.ctx, dir, &out, "go", "run", "-mod=mod", ".")
		cmd.Env = append(os.Environ(), "GOWORK=off")
	case "js":
		nsqjsEnv := e
		nsqjsEnv.cache = filepath.Join(filepath.Dir(e.cache), "nsqjs")
		lib, modules := nsqjsInstall(nsqjsEnv), filepath.Join(dir, "node_modules")
		steps.Must(os.MkdirAll(modules, 0o755))
		steps.Must(os.Symlink(lib, filepath.Join(modules, "nsqjs")))
		steps.Must(write(dir, map[string]string{"example.js": x.code}))
		cmd = command(e.ctx, dir, &out, "node", "example.js")
	default:
		steps.Fail("cannot run %q: unknown language", x.lang)
	}
	err := cmd.Run()
	return out.String(), err
}

// goModule returns the files of a module whose program is code: it uses the client of this
// repository, or go-nsq.
func goModule(e env, code string) map[string]string {
	mod := "module example\n\ngo 1.26.0\n\n"
	if !strings.Contains(code, ownModule) {
		return map[string]string{"main.go": code, "go.mod": mod + "require " + strings.Replace(goNSQModule, "@", " ", 1) + "\n"}
	}
	root := steps.Need(filepath.Abs(e.root))
	sums := steps.Need(os.ReadFile(filepath.Join(root, "go.sum")))
	mod += "require " + ownModule + " v0.0.0\n\nreplace " + ownModule + " => " + root + "\n"
	return map[string]string{"main.go": code, "go.mod": mod, "go.sum": string(sums)}
}

// ownModule is the module of this repository.
const ownModule = "github.com/brokerd/brokerd"

// write writes files into a directory, which it creates.
func write(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
