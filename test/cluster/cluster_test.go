package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

func TestErrorIsARefusalByDefault(t *testing.T) {
	tests := []struct {
		kind  int
		data  string
		want  audit.Outcome
		wrong bool
	}{
		{wire.FrameResponse, "OK", audit.Acknowledged, false},
		{wire.FrameError, "E_PUB_FAILED PUB failed, refused: not enough in-sync replicas", audit.Rejected, false},
		{wire.FrameError, "E_PUB_FAILED PUB failed, outcome unknown: timed out", audit.Open, false},
		{wire.FrameError, "E_BAD_TOPIC", audit.Rejected, true},
		{wire.FrameError, "E_INVALID", audit.Rejected, true},
		{wire.FrameResponse, "", audit.Open, false}, // no answer
	}
	for _, test := range tests {
		if got := traffic.OutcomeOf(test.kind, []byte(test.data)); got != test.want {
			t.Errorf("%q means %d, want %d", test.data, got, test.want)
		}
		if got := traffic.Wrong([]byte(test.data)); got != test.wrong {
			t.Errorf("%q is called wrong: %v", test.data, got)
		}
	}
}

func TestOnlyLateScenariosAreRepeated(t *testing.T) {
	late, lost := &nodes.Late{Err: errTooLong}, errors.New("message 7 is lost")
	tests := []struct {
		err  error
		want bool
	}{
		{nil, false},
		{late, true},
		{fmt.Errorf("drain: %w", late), true},
		{errors.Join(late, late), true},
		{errors.Join(late, lost), false},
		{errors.Join(late, fmt.Errorf("audit: %w", lost)), false},
		{fmt.Errorf("%w: %w", late, lost), false},
		{lost, false},
	}
	for _, test := range tests {
		if got := onlyLate(test.err); got != test.want {
			t.Errorf("%q is only late: %v", test.err, got)
		}
	}
}

func TestFailuresEndTheReport(t *testing.T) {
	chosen := []scenario{{name: "a"}, {name: "b"}, {name: "c"}}
	late := &nodes.Late{Err: errors.New("not after 10s: no leader\nlog")}
	err := failures(chosen, []error{late, nil, errors.New("message 7 is lost\nmessage 8 is lost")}, 5)
	if want := "a failed with seed 5: not after 10s: no leader\nc failed with seed 5: message 7 is lost"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if onlyLate(err) || !onlyLate(failures(chosen, []error{late, nil, nil}, 5)) || failures(chosen, make([]error, 3), 5) != nil {
		t.Error("what is late and what is lost are not told apart")
	}
}

func TestUnavailableCommandIsLate(t *testing.T) {
	for exit, late := range map[int]bool{exitUnavailable: true, 4: false, 1: false} {
		if err := (said{exit: exit}).ended(0); err == nil || onlyLate(err) != late {
			t.Errorf("exit status %d: %v is only late: %v", exit, err, !late)
		}
	}
}

func TestPercentiles(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(100-i))
	}
	for _, of := range []int{50, 99, 100} {
		if got := percentile(values, of); got != time.Duration(of) {
			t.Errorf("percentile %d of 1 to 100 is %d", of, got)
		}
	}
	if got := percentile([]time.Duration{7}, 50); got != 7 {
		t.Errorf("median of one value is %d", got)
	}
}

func TestTableShowsMissedAims(t *testing.T) {
	in := incident{name: "x", p50: time.Second, p99: 2 * time.Second}
	graceful := incident{name: "y", p99: time.Second, graceful: true}
	tests := []struct {
		result
		missed bool
	}{
		{result{incident: in, gaps: []time.Duration{time.Second, time.Second, 2 * time.Second}}, false},
		{result{incident: in, gaps: []time.Duration{time.Second, 3 * time.Second}}, true},
		{result{incident: in, gaps: []time.Duration{1001 * time.Millisecond}}, true},
		{result{incident: graceful, gaps: []time.Duration{time.Millisecond}}, false},
		{result{incident: graceful, gaps: []time.Duration{time.Millisecond}, failed: 1}, true},
	}
	for _, test := range tests {
		var out bytes.Buffer
		if got := tabulate(&out, []result{test.result}); got != test.missed || strings.Contains(out.String(), "MISSED") != test.missed {
			t.Errorf("missed: %v, want %v\n%s", got, test.missed, &out)
		}
	}
}

func TestScenariosAreChosenByName(t *testing.T) {
	all, err := choose("", true)
	if err != nil || len(all) != len(scenarios) {
		t.Errorf("%d of %d, %v", len(all), len(scenarios), err)
	}
	short, err := choose("", false)
	if err != nil || len(short) >= len(all) || slices.ContainsFunc(short, func(s scenario) bool { return s.long }) {
		t.Errorf("%d of %d are short, %v", len(short), len(all), err)
	}
	names := map[string]bool{}
	for _, s := range scenarios {
		if names[s.name] || (s.run == nil) == (s.alone == nil) || s.about == "" {
			t.Errorf("scenario %q is not well described", s.name)
		}
		names[s.name] = true
	}
	two, err := choose("pause-long,kill-all", false)
	if err != nil || len(two) != 2 || two[0].name != "pause-long" {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := choose("kill-everybody", false); err == nil {
		t.Error("a name that is none is accepted")
	}
}

func TestOldMessagesOfARecreatedTopicAreFound(t *testing.T) {
	k := audit.Key{Producer: 0, Seq: 1}
	r := &rebirth{acked: map[audit.Key]int{}, seen: map[audit.Key]bool{}, owed: map[audit.Key]bool{}, acks: recreateMinimum}
	r.answered(k, 0)
	if len(r.owed) != 1 {
		t.Error("an acknowledged message is not owed")
	}
	r.begin()
	r.answered(audit.Key{Seq: 2}, 0) // a deletion was in progress
	r.end()
	if len(r.owed) > 0 || len(r.found) > 0 {
		t.Errorf("owed %v, found %v", r.owed, r.found)
	}
	r.came(audit.Key{Seq: 2}, 1)
	if len(r.found) > 0 {
		t.Errorf("a message that may be in either topic: %v", r.found)
	}
	r.came(k, 1)
	if len(r.found) != 1 {
		t.Error("an old message is not found")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := options{rounds: 1, pause: time.Second, nodes: 3, jobs: 1}
	o := good
	if err := o.validate(); err != nil || o.seed == 0 {
		t.Errorf("%v, seed %d", err, o.seed)
	}
	for _, spoil := range []func(*options){
		func(o *options) { o.rounds = 0 },
		func(o *options) { o.pause = 0 }, func(o *options) { o.nodes = 0 }, func(o *options) { o.failover = -1 },
		func(o *options) { o.jobs = 0 },
	} {
		o := good
		spoil(&o)
		if o.validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
