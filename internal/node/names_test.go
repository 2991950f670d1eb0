package node

import (
	"slices"
	"testing"
)

func TestResolverDomainNamesAreOwnNames(t *testing.T) {
	got := searchDomains("# search commented.example.org\nnameserver 10.0.0.1\nsearch prod.example.com. com svc.cluster.local\ndomain example.net\noptions ndots:5\n")
	if want := []string{".prod.example.com", ".svc.cluster.local", ".example.net"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
