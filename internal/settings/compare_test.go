package settings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func TestSettingsAreCompared(t *testing.T) {
	node := func(id, reserve, from, address string) api.NodeSettings {
		return api.NodeSettings{Node: id, Settings: []api.Setting{
			{Name: "tcp-address", Value: address, Source: "file"},
			{Name: "disk-reserve", Value: reserve, Source: from},
			{Name: "max-msg-size", Value: "1MiB", Source: "default"},
			{Name: "log-level", Value: "info", Source: "environment"},
		}}
	}
	same := []api.NodeSettings{node("n1", "1GiB", "default", "a:1"), node("n2", "1GiB", "default", "b:1")}
	other := append(same[:2:2], node("n3", "2GiB", "flag", "c:1"))
	address := "tcp-address a:1 n1 file; tcp-address b:1 n2 file; "
	tests := []struct {
		name  string
		nodes []api.NodeSettings
		o     choice
		names []string
		want  string
	}{
		{"those that are set", same, choice{}, nil, address + "log-level info n1,n2 environment"},
		{"all", same, choice{all: true}, nil, address + "disk-reserve 1GiB n1,n2 default; max-msg-size 1MiB n1,n2 default; log-level info n1,n2 environment"},
		{"named, as in a file and as a flag", same, choice{}, []string{"max_msg_size", "--disk-reserve"}, "disk-reserve 1GiB n1,n2 default; max-msg-size 1MiB n1,n2 default"},
		{"nothing differs", same, choice{differing: true}, nil, ""},
		{"one differs", other, choice{differing: true}, nil, "disk-reserve 1GiB n1,n2 default; disk-reserve 2GiB n3 flag"},
		{"named and differing", other, choice{differing: true}, []string{"log-level", "tcp-address"}, address + "tcp-address c:1 n3 file"},
		{"the same value from two sources", append(same[:1:1], node("n2", "1GiB", "flag", "a:1")), choice{}, []string{"disk-reserve"}, "disk-reserve 1GiB n1,n2 default+flag"},
		{"no node responds", nil, choice{all: true}, []string{"disk-reserve"}, ""},
	}
	for _, test := range tests {
		rows, unknown := compare(test.nodes, test.o, test.names)
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%s %s %s %s", r.name, r.value, strings.Join(r.nodes, ","), strings.Join(r.sources, "+")))
		}
		if text := strings.Join(got, "; "); text != test.want || unknown != "" {
			t.Errorf("%s: %s, unknown %q\nwant %s", test.name, text, unknown, test.want)
		}
	}
	if _, unknown := compare(same, choice{}, []string{"disk-reserve", "disk-reserv"}); unknown != "disk-reserv" {
		t.Errorf("unknown %q", unknown)
	}
}

func TestLogLevelIsDescribed(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	until := now.Add(90*time.Second + time.Millisecond)
	for want, l := range map[string]api.LogLevel{
		"n1 logs at info": {Node: "n1", Level: "info", Configured: "info"},
		"n1 logs at debug for another 1m30s, then at info":                              {Node: "n1", Level: "debug", Configured: "info", Until: &until},
		"n1 logs at debug until it restarts or reloads its configuration, then at warn": {Node: "n1", Level: "debug", Configured: "warn"},
	} {
		if got := levelAnswer(&l, now).Said; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
