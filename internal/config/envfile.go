package config

import (
	"fmt"
	"strings"
)

// ParseEnvironmentFile reads variables in the format of systemd's EnvironmentFile: NAME=VALUE per
// line, comments after # or ;, quoted values, of which those in double quotes may contain escapes,
// and lines continued by a backslash. Unlike systemd, which skips invalid lines, it returns an
// error. The result has the form of os.Environ.
func ParseEnvironmentFile(name, text string) ([]string, error) {
	var environ []string
	rest, line := strings.ReplaceAll(text, "\r\n", "\n"), 1
	for rest != "" {
		trimmed := strings.TrimLeft(rest, " \t")
		switch {
		case trimmed == "":
			return environ, nil
		case trimmed[0] == '\n':
			rest, line = trimmed[1:], line+1
			continue
		case trimmed[0] == '#' || trimmed[0] == ';':
			_, rest, _ = strings.Cut(trimmed, "\n")
			line++
			continue
		}
		variable, _, _ := strings.Cut(trimmed, "\n")
		variable, _, ok := strings.Cut(variable, "=")
		variable = strings.TrimRight(variable, " \t")
		if !ok || !isVariable(variable) {
			return nil, fmt.Errorf("%s:%d: this is not NAME=VALUE", name, line)
		}
		value, left, ok := environmentValue(trimmed[strings.IndexByte(trimmed, '=')+1:])
		if !ok {
			return nil, fmt.Errorf("%s:%d: the quotes of %s are not closed", name, line, variable)
		}
		environ = append(environ, variable+"="+value)
		line += strings.Count(rest, "\n") - strings.Count(left, "\n")
		rest = left
	}
	return environ, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// environmentValue reads a value and returns it with what follows its line. ok: its quotes are closed.
func environmentValue(text string) (value, rest string, ok bool) {
	var out strings.Builder
	kept := 0                      // bytes of out that are not blanks at the end outside of quotes
	quote, plain := byte(0), false // plain: characters without quotes have begun, and quotes count no more
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n' && quote == 0:
			return out.String()[:kept], text[i+1:], true
		case c == quote && quote != 0:
			quote = 0
			kept = out.Len()
		case quote == 0 && !plain && (c == '"' || c == '\''):
			quote = c
		case c == '\\' && quote != '\'':
			plain = quote == 0
			if i++; i == len(text) {
				return out.String()[:kept], "", quote == 0
			}
			if c = text[i]; c == '\n' {
				continue // the line continues
			}
			if quote == '"' && !strings.ContainsRune("\"\\`$", rune(c)) {
				out.WriteByte('\\')
			}
			out.WriteByte(c)
			kept = out.Len()
		case quote == 0 && (c == ' ' || c == '\t'):
			if plain {
				out.WriteByte(c)
			}
		default:
			plain = quote == 0
			out.WriteByte(c)
			kept = out.Len()
		}
	}
	return out.String()[:kept], "", quote == 0
}
