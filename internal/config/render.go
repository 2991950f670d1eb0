package config

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Print lists every setting as a TOML file that has the same effect; with
// sources, each line says where its value came from.
func (l *Loaded) Print(sources bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range l.Options.Settings() {
		if s.Key == configKey {
			continue
		}
		line := s.FileKey() + " = " + s.literal(s.Value())
		if sources {
			from, ok := l.Sources[s.Key]
			if !ok {
				from = "default"
			}
			line += "\t# " + from
		}
		fmt.Fprintln(w, line)
	}
	_ = w.Flush() // a Builder never fails
	return b.String()
}

// literal writes text as the TOML value of the setting.
func (s Setting) literal(text string) string {
	switch s.value.(type) {
	case typed[bool], typed[int]:
		return text
	case typed[[]string]:
		if text == "" {
			return "[]"
		}
		words := strings.Split(text, ",")
		for i, w := range words {
			words[i] = fmt.Sprintf("%q", w)
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	return fmt.Sprintf("%q", text)
}

// Example returns a configuration file in which every setting is explained and
// commented out with its default.
func Example() string {
	var b strings.Builder
	b.WriteString("# Configuration of brokerd. Every setting is shown with its default.\n" +
		"# A flag beats an environment variable, which beats this file.\n" +
		"# `brokerd config check FILE` checks it; an unknown key is an error.\n")
	group := ""
	o := Default()
	for _, s := range o.Settings() {
		if s.Key == configKey {
			continue
		}
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n# --- %s ---\n", group)
		}
		b.WriteString("\n")
		for line := range strings.SplitSeq(fold(s.Doc, 96), "\n") {
			b.WriteString("# " + line + "\n")
		}
		fmt.Fprintf(&b, "#%s = %s\n", s.FileKey(), s.literal(s.Default))
	}
	return b.String()
}

// fold breaks text into lines of at most width, between words.
func fold(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// Changed compares two configurations of a running node: the keys that a
// reload can apply and those that need a restart.
func Changed(before, after *Options) (reloadable, restart []string) {
	is := after.Settings()
	for i, was := range before.Settings() {
		if was.Value() == is[i].Value() {
			continue
		}
		if was.Reload {
			reloadable = append(reloadable, was.Key)
		} else {
			restart = append(restart, was.Key)
		}
	}
	return reloadable, restart
}

// CopyReloadable copies from another configuration the settings that a reload can change, and no
// others.
func (o *Options) CopyReloadable(from *Options) {
	theirs := from.Settings()
	for i, ours := range o.Settings() {
		if ours.Reload {
			if err := ours.value.set(theirs[i].Value()); err != nil {
				panic("BUG: " + ours.Key + " does not read back: " + err.Error())
			}
		}
	}
}
