package output

import (
	"strings"
	"testing"
)

// TestYAMLQuotesWordsThatOthersReadAsBooleans: a program that reads YAML 1.1 takes a trace that is off for false.
func TestYAMLQuotesWordsThatOthersReadAsBooleans(t *testing.T) {
	for value, want := range map[any]string{
		"off": `"off"`, "On": `"On"`, "n": `"n"`, "yes": `"yes"`, "offer": "offer", "true": `"true"`, true: "true", false: "false", 7: "7",
	} {
		var out strings.Builder
		v := View{Object: map[string]any{"trace": value, "off": "x"}}
		if err := v.Write(NewPage(&out, false, true, nil), FormatYAML); err != nil || out.String() != "\"off\": x\ntrace: "+want+"\n" {
			t.Errorf("%v: %q, want %s: %v", value, out.String(), want, err)
		}
	}
}
