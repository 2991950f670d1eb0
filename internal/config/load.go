package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/words"
)

const (
	envPrefix        = "BROKERD_"
	configKey        = "config"
	maxFileBytes     = 1 << 20        // of a configuration file: a larger one is something else
	byteOrderMark    = "\ufeff"       // some editors begin a file with it
	environmentWhere = "environment " // before the name of a variable
)

// Input is everything from which a configuration is made.
type Input struct {
	Flags    []Assignment // in the order given; Where may be empty
	Environ  []string     // as os.Environ gives it
	Hostname string       // used if node-id is empty
	ReadFile func(name string) ([]byte, error)
}

// Assignment gives a setting a value.
type Assignment struct {
	Key   string // of the Setting
	Value string // as text
	Where string // for messages and for config print
	Quote string // see Problem
	Flag  bool   // it comes from the command line
}

// Loaded is a configuration and the source of each setting.
type Loaded struct {
	Options Options
	// Sources is the source of each value by key; a missing key has its default.
	Sources map[string]string
}

// Default returns the default options. The node id, which has no default, is
// empty.
func Default() Options {
	var o Options
	for _, s := range o.Settings() {
		if err := s.value.set(s.Default); err != nil && s.Default != "" {
			panic("BUG: default of " + s.Key + " " + err.Error())
		}
	}
	return o
}

// Load lays flags over the environment over the file over the defaults and
// checks the result. The error is Problems, or that of reading the file.
func Load(in Input) (Loaded, error) {
	fromEnv, problems := environment(in.Environ)
	flags := slices.Clone(in.Flags)
	for i := range flags {
		flags[i].Flag = true
		if flags[i].Where == "" {
			flags[i].Where = "flag --" + flags[i].Key
		}
	}
	var fromFile []Assignment
	if name := fileName(fromEnv, flags); name != "" {
		content, err := in.ReadFile(name)
		if err != nil {
			return Loaded{}, fmt.Errorf("read configuration: %w", err)
		}
		if len(content) > maxFileBytes {
			return Loaded{}, fmt.Errorf("read configuration: %s has %d bytes, the maximum is %d; it is probably another file", name, len(content), maxFileBytes)
		}
		var wrong Problems
		fromFile, wrong = parseFile(name, bytes.TrimPrefix(content, []byte(byteOrderMark)))
		problems = append(problems, wrong...)
	}
	loaded, err := Resolve(in.Hostname, nil, fromFile, fromEnv, flags)
	return whole(loaded, problems, err)
}

// FromEnvironment returns the names of the variables that count, sorted.
func (l Loaded) FromEnvironment() []string {
	var names []string
	for _, where := range l.Sources {
		if name, ok := strings.CutPrefix(where, environmentWhere); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// whole returns the loaded options, unless there were problems before it or in it.
func whole(loaded Loaded, problems Problems, err error) (Loaded, error) {
	if more, ok := errors.AsType[Problems](err); ok {
		problems = append(problems, more...)
	} else if err != nil {
		return Loaded{}, err
	}
	if len(problems) > 0 {
		return Loaded{}, problems
	}
	return loaded, nil
}

// Resolve lays the layers over the defaults, later ones over earlier ones, and
// checks the result. The keys of defaults override those of the table. Within
// a layer the last assignment counts, and all of them for a list.
func Resolve(hostname string, defaults map[string]string, layers ...[]Assignment) (Loaded, error) {
	loaded := Loaded{Options: Default(), Sources: map[string]string{}}
	byKey := map[string]Setting{}
	for _, s := range loaded.Options.Settings() {
		byKey[s.Key] = s
	}
	for key, text := range defaults {
		if err := byKey[key].value.set(text); err != nil {
			panic("BUG: default of " + key + " " + err.Error())
		}
	}
	var problems Problems
	for _, layer := range layers {
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			problems = append(problems, assign(byKey[key], layer, loaded.Sources)...)
		}
		for _, a := range layer {
			if _, ok := byKey[a.Key]; !ok {
				problems = append(problems, Problem{a.Where, fmt.Sprintf("unknown setting %q", a.Key), a.Quote, a.Flag})
			}
		}
	}
	o := &loaded.Options
	if o.NodeID == "" {
		o.NodeID = hostname
		loaded.Sources["node-id"] = "host name"
	}
	if _, given := loaded.Sources["tls-required"]; !given && o.TLS.ClientAuthPolicy != "" {
		o.TLS.Required = "true"
		loaded.Sources["tls-required"] = "tls-client-auth-policy"
	}
	for _, p := range check(o) {
		where := loaded.Sources[p.key]
		problems = append(problems, Problem{
			Where: where, Text: p.key + " " + p.text, Flag: strings.HasPrefix(where, "flag "),
		})
	}
	if len(problems) > 0 {
		return Loaded{}, problems
	}
	return loaded, nil
}

// assign applies a layer's value of one setting.
func assign(s Setting, layer []Assignment, sources map[string]string) Problems {
	var problems Problems
	var words []string
	for _, a := range layer {
		if a.Key != s.Key {
			continue
		}
		text := a.Value
		if s.IsList() {
			words = append(words, text)
			text = strings.Join(words, ",")
		}
		if err := s.value.set(text); err != nil {
			problems = append(problems, Problem{a.Where, fmt.Sprintf("%s: %q %v", s.Key, a.Value, err), a.Quote, a.Flag})
			continue
		}
		sources[s.Key] = a.Where
	}
	return problems
}

// fileName finds the file to read: the file cannot name itself.
func fileName(layers ...[]Assignment) string {
	name := ""
	for _, layer := range layers {
		for _, a := range layer {
			if a.Key == configKey {
				name = a.Value
			}
		}
	}
	return name
}

// environment picks the settings out of the environment.
func environment(environ []string) ([]Assignment, Problems) {
	byName := map[string]string{}
	var o Options
	for _, s := range o.Settings() {
		byName[s.Env()] = s.Key
	}
	var assigned []Assignment
	var problems Problems
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, text, ok := strings.Cut(entry, "=")
		if !ok || !strings.HasPrefix(name, envPrefix) || foreign(name) {
			continue
		}
		where := environmentWhere + name
		key, known := byName[name]
		if !known {
			hint := words.Nearest(name, slices.Sorted(maps.Keys(byName)))
			problems = append(problems, Problem{Where: where, Text: "unknown setting" + didYouMean(hint)})
			continue
		}
		assigned = append(assigned, Assignment{Key: key, Value: text, Where: where})
	}
	return assigned, problems
}

// foreign reports variables that others set: Kubernetes describes a service called brokerd to every
// container near it by names with our prefix.
func foreign(name string) bool {
	rest := strings.TrimPrefix(name, envPrefix)
	return rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
}

func didYouMean(hint string) string {
	if hint == "" {
		return ""
	}
	return "; did you mean " + hint + "?"
}
