package api

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	declaredCode  = regexp.MustCompile(`Code[A-Za-z]+ +Code = "([a-z_]+)"`)
	documentedRow = regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| (\\d{3}) \\|")
)

// TestTheManualListsTheCodes compares the codes of /v1, and their statuses, with docs/http-api.md.
func TestTheManualListsTheCodes(t *testing.T) {
	source, err := os.ReadFile("error.go")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[Code]int{}
	for _, row := range documentedRow.FindAllSubmatch(manual, -1) {
		status, _ := strconv.Atoi(string(row[2])) // three digits
		for code := range strings.SplitSeq(string(row[1]), ", ") {
			documented[Code(strings.Trim(code, "`"))] = status
		}
	}
	declared := declaredCode.FindAllSubmatch(source, -1)
	if len(declared) < 10 {
		t.Fatalf("found %d codes", len(declared))
	}
	for _, d := range declared {
		code := Code(d[1])
		if documented[code] != code.Status() {
			t.Errorf("%s: the manual says %d, the code %d %s", code, documented[code], code.Status(), http.StatusText(code.Status()))
		}
		delete(documented, code)
	}
	if len(documented) > 0 {
		t.Errorf("the manual has codes that are none: %v", documented)
	}
}
