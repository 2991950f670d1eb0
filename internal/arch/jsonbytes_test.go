package arch

import (
	"go/ast"
	"strings"
	"testing"
)

// trustedJSON lists the files that decode JSON with encoding/json, which replaces bytes that are not UTF-8, with
// the reason why they may: a decoder of JSON from outside uses internal/jsonbytes.
var trustedJSON = map[string]string{
	"cmd/brokerd/nsqdimport.go":       "the node's own file",
	"internal/backups/restore.go":     "settings in a backup, which a broker wrote and a checksum protects",
	"internal/jsonbytes/jsonbytes.go": "after a check",
	"internal/listing/sheet.go":       "a value that was encoded before",
	"internal/lookupd/announce.go":    "channels whose names are checked, and a daemon's description of itself",
	"internal/nsqdfiles/dir.go":       "after a check",
	"internal/output/page.go":         "a value that was encoded before",
	"internal/topicfile/file.go":      "a value that was encoded before",
	"internal/topicfile/plan.go":      "a value that was encoded before",
	"pkg/admin/api/probe.go":          "response of a broker",
	"pkg/admin/api/transport.go":      "response of a broker",
	"pkg/admin/api/value.go":          "words of a fixed list; the request as a whole is checked",
	"pkg/admin/v1/api.go":             "after a check",
	"pkg/admin/v1/messages.go":        "compares a name with a fixed one",
	"pkg/backup/chunk.go":             "a broker wrote it, and a checksum protects it",
	"pkg/backup/manifest.go":          "a broker wrote it, and a checksum protects it",
	"pkg/backup/owner.go":             "words of this program",
	"pkg/client/handshake.go":         "response of a broker",
	"pkg/client/lookup.go":            "addresses",
	"pkg/cluster/formation/wire.go":   "from a node",
	"pkg/consume/relaysource.go":      "from a node",
	"pkg/datadir/disk.go":             "the node's own file",
	"pkg/forward/operate.go":          "from a node",
	"pkg/keys/keys.go":                "tokens; texts are read from the body",
	"pkg/meta/command.go":             "metadata, whose names are checked",
	"pkg/meta/raftstore/answer.go":    "from a node",
	"pkg/meta/raftstore/verify.go":    "from a node",
	"pkg/meta/snapshot.go":            "metadata, whose names are checked",
	"pkg/nsq/identify.go":             "texts after jsonbytes.Visible, and a filter as it was sent",
	"pkg/scrubber/scrubber.go":        "the node's own file",
	"pkg/server/auth/auth.go":         "a port number; the grant itself is checked",
}

// TestForeignJSONIsDecodedWithoutReplacement allows encoding/json to decode only what cannot contain foreign bytes as
// ids, keys or names.
func TestForeignJSONIsDecodedWithoutReplacement(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.path, "test/") || strings.HasPrefix(s.path, "tools/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Unmarshal" && sel.Sel.Name != "NewDecoder" {
				return true
			}
			if from, ok := sel.X.(*ast.Ident); !ok || from.Name != "json" {
				return true
			}
			if used[s.path] = true; trustedJSON[s.path] == "" {
				t.Errorf("%s: encoding/json replaces bytes that are not UTF-8: use internal/jsonbytes, or list the file with the reason", s.pos(sel.Pos()))
			}
			return true
		})
	}
	for path := range trustedJSON {
		if !used[path] {
			t.Errorf("%s is listed, and decodes no JSON", path)
		}
	}
}
