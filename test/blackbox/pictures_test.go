package blackbox

import (
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/golden"
)

// pictured is a picture of a terminal in a guide, with the block of commands and output that it shows.
var pictured = regexp.MustCompile("(?s)!\\[[^]]*\\]\\(([a-z-]+\\.svg)\\)\n\n```console\n(.*?)```")

// TestPicturesShowTheTour makes the pictures of the tour from its text, which TestGuidesMatchCommandOutput compares with
// what the programs print. The flag -update writes them.
func TestPicturesShowTheTour(t *testing.T) {
	guides := filepath.Join("..", "..", "docs", "guide")
	text, err := os.ReadFile(filepath.Join(guides, "tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range pictured.FindAllStringSubmatch(string(text), -1) {
		golden.Compare(t, filepath.Join(guides, m[1]), terminal(m[2]))
		shown[m[1]] = true
	}
	files, err := filepath.Glob(filepath.Join(guides, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if diff := cmp.Diff(files, slices.Sorted(maps.Keys(shown))); diff != "" || len(shown) < 4 {
		t.Errorf("pictures, and those that the tour shows with their text: %s", diff)
	}
}

// terminal draws commands and their output as an SVG picture.
func terminal(text string) string {
	const wide, high, margin = 8.43, 19, 16 // pixels of a character of 14, and around the text
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	var b strings.Builder
	width, height := int(float64(columns)*wide)+2*margin, len(lines)*high+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="14">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#1d2021"/>`+"\n")
	for i, line := range lines {
		color := "#ebdbb2"
		if strings.HasPrefix(line, "$ ") {
			color = "#b8bb26"
		}
		var escaped strings.Builder
		_ = xml.EscapeText(&escaped, []byte(line)) // to memory
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" xml:space="preserve">%s</text>`+"\n", margin, margin+14+i*high, color, escaped.String())
	}
	return b.String() + "</svg>\n"
}
