package admin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// messages returns a message for each body.
func messages(bodies ...string) []topic.Message {
	var list []topic.Message
	for _, b := range bodies {
		list = append(list, topic.Message{Body: []byte(b)})
	}
	return list
}

// checkPublished compares publishes, except for their Done.
func checkPublished(t *testing.T, got, want []publish.Request) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(publish.Request{}, "Done")); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}
