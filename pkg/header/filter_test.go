package header

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFiltersSelectMessages(t *testing.T) {
	const (
		order   = `{"type":"order","region":"eu-west","n":7}`
		invoice = `{"type":"invoice","region":"us"}`
	)
	headers := []string{order, invoice, `{}`, ``}
	for _, test := range []struct{ name, filter, chosen string }{
		{"none", ``, "1111"},
		{"null", `null`, "1111"},
		{"type 0", `{"type":0,"filter_ext_key":"type"}`, "1111"},
		{"exact", `{"type":1,"filter_ext_key":"type","filter_data":"order"}`, "1000"},
		{"exact, of a number", `{"type":1,"filter_ext_key":"n","filter_data":"7"}`, "0000"},
		{"exact, inverse", `{"type":1,"inverse":true,"filter_ext_key":"type","filter_data":"order"}`, "0111"},
		{"exact, no key: chooses all", `{"type":1,"inverse":false,"filter_ext_key":"","filter_data":null}`, "1111"},
		{"exact, no text: chooses all", `{"type":1,"filter_ext_key":"type","filter_data":""}`, "1111"},
		{"regular expression, no text: chooses all", `{"type":2,"inverse":true,"filter_ext_key":"type"}`, "1111"},
		{"several parts as a glob, no text: chooses all", `{"type":3,"inverse":false,"filter_ext_key":"any","filter_data_list":[{"filter_ext_key":"type","filter_data":"order"}]}`, "1111"},
		{"regular expression", `{"type":2,"filter_ext_key":"region","filter_data":"^eu|s$"}`, "1100"},
		{"no value is the empty text", `{"type":2,"filter_ext_key":"n","filter_data":"^$"}`, "1110"},
		{"it is searched for", `{"type":2,"filter_ext_key":"type","filter_data":"oic"}`, "0100"},
		{"glob", `{"type":3,"filter_ext_key":"region","filter_data":"eu-*"}`, "1000"},
		{"a glob of no value", `{"type":3,"filter_ext_key":"n","filter_data":"*"}`, "1110"},
		{"a glob is for the whole", `{"type":3,"filter_ext_key":"type","filter_data":"ord"}`, "0000"},
		{"a glob with alternatives", `{"type":3,"filter_ext_key":"type","filter_data":"{ord?r,in[!a-u]oice}"}`, "1100"},
		{"any", `{"type":4,"filter_ext_key":"any","filter_data_list":[{"filter_ext_key":"type","filter_data":"x"},{"filter_ext_key":"region","filter_data":"us"}]}`, "0100"},
		{"all", `{"type":4,"filter_ext_key":"all","filter_data_list":[{"filter_ext_key":"type","filter_data":"order"},{"filter_ext_key":"region","filter_data":"us"}]}`, "0000"},
		{"all, inverse", `{"type":4,"inverse":true,"filter_ext_key":"all","filter_data_list":[{"filter_ext_key":"type","filter_data":"order"},{"filter_ext_key":"region","filter_data":"eu-west"}]}`, "0111"},
	} {
		f, err := ParseFilter([]byte(test.filter))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		chosen := ""
		for _, h := range headers {
			if f.Match([]byte(h)) {
				chosen += "1"
			} else {
				chosen += "0"
			}
		}
		if chosen != test.chosen {
			t.Errorf("%s: %s, want %s", test.name, chosen, test.chosen)
		}
		if f != nil && string(f.Raw()) != test.filter {
			t.Errorf("%s: kept as %s", test.name, f.Raw())
		}
	}
}

func TestUnsupportedFiltersAreRefused(t *testing.T) {
	many := `{"filter_ext_key":"a","filter_data":"b"}` + strings.Repeat(`,{"filter_ext_key":"a","filter_data":"b"}`, maxFilterParts)
	for _, bad := range []string{
		`[]`, `{`, `{"type":"1"}`, `{"type":5}`, `{"type":-1}`,
		`{"type":2,"filter_ext_key":"a","filter_data":"("}`,
		`{"type":2,"filter_ext_key":"a","filter_data":"(((a{100}){100}){100})"}`,
		`{"type":3,"filter_ext_key":"a","filter_data":"[a"}`,
		`{"type":3,"filter_ext_key":"a","filter_data":"{a"}`,
		`{"type":4,"filter_ext_key":"any"}`,
		`{"type":4,"filter_ext_key":"some","filter_data_list":[{"filter_ext_key":"a","filter_data":"b"}]}`,
		`{"type":4,"filter_ext_key":"any","filter_data_list":[` + many + `]}`,
		`{"type":4,"filter_ext_key":"any","filter_data_list":[{"filter_ext_key":"a","filter_data":"b"},{"filter_ext_key":"","filter_data":"b"}]}`,
		`{"type":4,"filter_ext_key":"any","filter_data_list":[{"filter_ext_key":"a"}]}`,
		`{"type":1,"filter_ext_key":"a","filter_data":"` + strings.Repeat("x", maxFilterText+1) + `"}`,
	} {
		if f, err := ParseFilter([]byte(bad)); !errors.Is(err, errFilter) || f != nil {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, test := range []struct {
		glob, yes, no string
	}{
		{"*", "a||a/b|a\nb", ""},
		{"a.c", "a.c", "abc"},
		{"a?c", "abc|a.c", "ac|abbc"},
		{`a\*c`, "a*c", "abc"},
		{"[a-c]x", "ax|cx", "dx|x"},
		{"[!a-c]x", "dx", "ax"},
		{"{foo,b*r},x", "foo,x|br,x|bazr,x", "foo|x"},
		{"}", "}", ""},
		{"a$", "a$", "a"},
	} {
		f, err := ParseFilter(fmt.Appendf(nil, `{"type":3,"filter_ext_key":"k","filter_data":%q}`, test.glob))
		if err != nil {
			t.Errorf("%s: %v", test.glob, err)
			continue
		}
		for want, list := range map[bool]string{true: test.yes, false: test.no} {
			for value := range strings.SplitSeq(list, "|") {
				if list != "" && f.Match(fmt.Appendf(nil, `{"k":%q}`, value)) != want {
					t.Errorf("%s matches %q: %v", test.glob, value, !want)
				}
			}
		}
	}
}

// FuzzFilter checks that a filter that is taken can be asked about any header.
func FuzzFilter(f *testing.F) {
	f.Add([]byte(`{"type":3,"filter_ext_key":"k","filter_data":"{a,[!b-c]*}\\?"}`), []byte(`{"k":"v"}`))
	f.Add([]byte(`{"type":4,"filter_ext_key":"any","filter_data_list":[{"filter_ext_key":"k","filter_data":"v"}]}`), []byte(`{"k":1}`))
	f.Fuzz(func(t *testing.T, spec, raw []byte) {
		filter, err := ParseFilter(spec)
		if err != nil {
			return
		}
		filter.Match(raw)
		if again, err := ParseFilter(filter.Raw()); err != nil || again.Match(raw) != filter.Match(raw) {
			t.Errorf("%q does not read back: %v", spec, err)
		}
	})
}
