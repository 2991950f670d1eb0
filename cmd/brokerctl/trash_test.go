package main

import "testing"

func TestDeletedTopicsAreListed(t *testing.T) {
	broker := newFakeBroker(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "NAME    DELETED                   KEPT UNTIL                PARTITIONS  REPLICAS  CHANNELS\n" +
			"orders  2026-11-21T09:14:02.000Z  2026-11-22T09:14:02.000Z  2           3         2\n"},
		{[]string{"-o", "name"}, "orders\n"},
		{[]string{"-o", "ndjson"}, `{"name":"orders","incarnation":41,"deleted_at":"2026-11-21T09:14:02Z","kept_until":"2026-11-22T09:14:02Z",` +
			`"partitions":2,"replicas":3,"channels":["invoice","mail"],"nodes":["n1","n2","n3"]}` + "\n"},
	} {
		r := broker.brokerctl(t, append([]string{"topic", "list", "--deleted"}, tc.args...)...)
		if r.exit != exitOK || r.stdout != tc.want {
			t.Errorf("%q: exit %d, stderr %q\n%swant\n%s", tc.args, r.exit, r.stderr, r.stdout, tc.want)
		}
	}
}
