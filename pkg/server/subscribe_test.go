package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

const extendSupport = "IDENTIFY\n\x00\x00\x00\x17" + `{"extend_support":true}`

// binaryID is the id of a message of partition 0 as clients of the extensions see it.
func binaryID(o seq.Offset, traceID string) string {
	return placed(0, o, traceID, 0)[10:26]
}

// The frames that extended consumers receive, byte by byte.
func TestExtendedFramesGolden(t *testing.T) {
	const (
		ok      = "\x00\x00\x00\x06\x00\x00\x00\x00OK"
		trace   = "\x11\x22\x33\x44\x55\x66\x77\x88"
		noTrace = "\x00\x00\x00\x00\x00\x00\x00\x00"
		stamp   = "\x00\x00\x00\x00\x00\x00\x00\x2a"
		details = "\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x23"
		head    = `{"k": "v"}`
	)
	frame := func(data string) string {
		return "\x00\x00\x00" + string(rune(len(data)+4)) + "\x00\x00\x00\x02" + data
	}
	id0, id1 := binaryID(0, trace), binaryID(1, noTrace)
	plain := "PUB_TRACE t 0\n" + sized(trace+"a") + "PUB t\n" + sized("b")
	ext := "PUB_EXT ext 0\n" + sized("\x00\x0a"+head+"a") + "PUB ext\n" + sized("b")
	for _, test := range []struct{ name, publish, send, want string }{
		{
			"SUB", plain, "SUB t c\nRDY 2\n",
			ok + frame(stamp+"\x00\x01"+fakeIDs.ID(0).String()+"a") + frame(stamp+"\x00\x01"+fakeIDs.ID(1).String()+"b"),
		},
		{
			"SUB of an extended topic by a standard client", ext, "SUB ext c\nRDY 2\n",
			ok + frame(stamp+"\x00\x01"+fakeIDs.ID(0).String()+"a") + frame(stamp+"\x00\x01"+fakeIDs.ID(1).String()+"b"),
		},
		{
			"SUB of an extended topic", ext, extendSupport + "SUB ext c 0\nRDY 2\n",
			ok + ok + frame(stamp+"\x00\x01"+binaryID(0, noTrace)+"\x04\x00\x0a"+head+"a") + frame(stamp+"\x00\x01"+id1+"\x00"+"b"),
		},
		{
			"SUB by a client that knows the extensions", plain, "IDENTIFY\n" + sized(`{"ext_filter":{"type":1,"filter_ext_key":""}}`) + "SUB t c\nRDY 2\n",
			ok + ok + frame(stamp+"\x00\x01"+id0+"a") + frame(stamp+"\x00\x01"+id1+"b"),
		},
		{
			"SUB of a partition", plain, "SUB t c 0\nRDY 2\n",
			ok + frame(stamp+"\x00\x01"+id0+"a") + frame(stamp+"\x00\x01"+id1+"b"),
		},
		{
			"SUB of an extended topic by a client that knows the extensions", ext, "IDENTIFY\n" + sized(`{"desired_tag":""}`) + "SUB ext c\nRDY 2\n",
			ok + ok + frame(stamp+"\x00\x01"+binaryID(0, noTrace)+"a") + frame(stamp+"\x00\x01"+id1+"b"),
		},
		{
			"SUB_ADVANCED", plain, "SUB_ADVANCED t c 0\nRDY 2\n",
			ok + frame(stamp+"\x00\x01"+id0+details+"a") + frame(stamp+"\x00\x01"+id1+details+"b"),
		},
		{
			"SUB_ADVANCED without a partition", plain, "SUB_ADVANCED t c\nRDY 2\n",
			ok + frame(stamp+"\x00\x01"+id0+details+"a") + frame(stamp+"\x00\x01"+id1+details+"b"),
		},
		{
			"SUB_ADVANCED of an extended topic", ext, extendSupport + "SUB_ADVANCED ext c 0 msgcount:1\nRDY 2\n",
			ok + ok + frame(stamp+"\x00\x01"+binaryID(0, noTrace)+"\x04\x00\x0a"+head+details+"a") +
				frame(stamp+"\x00\x01"+id1+"\x00"+details+"b"),
		},
		{
			"SUB_ORDERED", plain, "SUB_ORDERED t c 0\nRDY 2\n",
			ok + frame(stamp+"\x00\x01"+id0+details+"a") + frame(stamp+"\x00\x01"+id1+details+"b"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, Options{})
			w := h.dial(t)
			w.send(test.publish)
			for range 2 {
				w.frame()
			}
			c := h.dial(t)
			c.send(test.send)
			c.expectBytes(test.want)
		})
	}
}

// An id may contain any byte, including space and newline: it is read by its length.
func TestBinaryIDsAreReadByLength(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	ids := make([]string, 4)
	for i := range ids {
		trace := "\n FIN\r\n "
		w.send("PUB_TRACE t 0\n" + sized(trace+"x"))
		w.frame()
		ids[i] = binaryID(seq.Offset(i), trace) //nolint:gosec // small
	}
	w.send("SUB_ADVANCED t c 0\nRDY 4\n")
	for range 1 + len(ids) {
		w.frame()
	}
	w.send("FIN " + ids[0] + "\n" + "REQ " + ids[1] + " 20\n")
	w.frame() // the fake broker does not support delays
	w.send("TOUCH " + ids[2] + "\n" + "FIN " + ids[0] + "\n")
	w.expect("E_FIN_FAILED FIN " + fakeIDs.ID(0).String() + " failed ID not in flight")
	w.send("FIN " + strings.Repeat("\x00", 8) + ids[0][8:] + "\n")
	w.expect("E_INVALID Invalid Message ID", "EOF")
}

// A subscription passes its command's parameters to the broker.
func TestExtendedSubscriptionsAreParsed(t *testing.T) {
	type asked struct {
		Partition int
		Ordered   bool
		Start     topic.Start
	}
	for send, want := range map[string]asked{
		"SUB t c\n":                            {Partition: -1},
		"SUB t c 2\n":                          {Partition: 2},
		"SUB t c -1 msgcount:1\n":              {Partition: -1},
		"SUB_ADVANCED t c\n":                   {Partition: -1},
		"SUB_ADVANCED t c -1\n":                {Partition: -1},
		"SUB_ADVANCED t c 1 \n":                {Partition: 1},
		"SUB_ADVANCED t c 1 timestamp:17\n":    {Partition: 1, Start: topic.Start{Kind: topic.StartAtTime, Value: 17}},
		"SUB_ADVANCED t c 2 virtual_queue:0\n": {Partition: 2, Start: topic.Start{Kind: topic.StartAtPosition}},
		"SUB_ADVANCED t c 3 msgcount:9\n":      {Partition: 3, Start: topic.Start{Kind: topic.StartAtMessage, Value: 9}},
		"SUB_ADVANCED t c -1 special:-1\n":     {Partition: -1, Start: topic.Start{Kind: topic.StartAtEnd}},
		"SUB_ORDERED t c 1\n":                  {Partition: 1, Ordered: true},
		"SUB_ORDERED t c 1 msgcount:9\n":       {Partition: 1, Ordered: true},
	} {
		h := newHarness(t, Options{})
		w := h.dial(t)
		w.send(send)
		w.expect("OK")
		r := h.broker.channel("t", "c").asked[0]
		if diff := cmp.Diff(want, asked{r.Partition, r.Ordered, r.Start}); diff != "" {
			t.Errorf("%q: %s", send, diff)
		}
	}
}

// A consumer's selection applies on topics with headers, also for standard clients. On other topics
// it gets all messages.
func TestConsumersFilterExtendedTopics(t *testing.T) {
	const identity = `{"feature_negotiation":true,"desired_tag":"vip","ext_filter":{"type":1,"filter_ext_key":"k","filter_data":"v"}`
	for _, extend := range []string{"", `,"extend_support":true`} {
		for _, send := range []string{"SUB ext c\n", "SUB ext c 1\n", "SUB_ADVANCED ext c 1\n", "SUB_ORDERED ext c 1\n", "SUB t c\n", "SUB_ADVANCED t c\n"} {
			plain := strings.Contains(send, " t ")
			if plain == (extend != "") && (plain || strings.Contains(send, "_")) {
				continue // refused
			}
			h := newHarness(t, Options{})
			w := h.dial(t)
			w.send("IDENTIFY\n" + sized(identity+extend+"}") + send)
			if answer := w.frame(); !strings.HasSuffix(answer, `,"desired_tag":"vip"}`) {
				t.Errorf("IDENTIFY was answered %s", answer)
			}
			w.expect("OK")
			r := h.broker.channel(strings.Fields(send)[1], "c").asked[0]
			if chosen := r.Tag == "vip" && r.Filter.Match([]byte(`{"k":"v"}`)) && !r.Filter.Match([]byte(`{}`)); chosen == plain {
				t.Errorf("%q asks for tag %q, filter %s", send, r.Tag, r.Filter.Raw())
			}
		}
	}
	for identity, want := range map[string]string{
		`{"desired_tag":"a b"}`:       "E_BAD_BODY IDENTIFY desired tag (a b) is invalid",
		`{"ext_filter":{"type":9}}`:   "E_BAD_BODY IDENTIFY ext_filter: invalid header filter: type 9 is unknown",
		`{"desired_tag":1}`:           "E_BAD_BODY IDENTIFY failed to decode JSON body",
		`{"ext_filter":{"type":"1"}}`: "E_BAD_BODY IDENTIFY ext_filter: invalid header filter: json: cannot unmarshal string into Go struct field spec.type of type int",
	} {
		w := newHarness(t, Options{}).dial(t)
		w.send("IDENTIFY\n" + sized(identity))
		w.expect(want, "EOF")
	}
}

func TestInvalidExtendedSubscriptionsAreRefused(t *testing.T) {
	for _, test := range []struct{ name, send, want string }{
		{"too little", "SUB_ORDERED t\n", "E_INVALID SUB_ORDERED insufficient number of parameters"},
		{"a partition that is no number", "SUB_ADVANCED t c x\n", "E_BAD_PARTITION topic partition is not valid: x"},
		{"a partition that is missing", "SUB_ORDERED t c 4\n", "E_TOPIC_NOT_EXIST "},
		{"a topic that is missing", "SUB_ADVANCED missing c 0\n", "E_TOPIC_NOT_EXIST "},
		{"a topic that is missing, for one that knows headers", extendSupport + "SUB missing c\n", "E_TOPIC_NOT_EXIST "},
		{"a topic that is missing, with a partition", "SUB missing c 0\n", "E_TOPIC_NOT_EXIST "},
		{"a partition that is missing, for one that knows the extensions", "IDENTIFY\n" + sized(`{"desired_tag":""}`) + "SUB t c 4\n", "E_TOPIC_NOT_EXIST "},
		{"a publish to it", "IDENTIFY\n" + sized(`{"desired_tag":""}`) + "PUB t 4\n" + sized("x"), "E_TOPIC_NOT_EXIST "},
		{"order and samples", "IDENTIFY\n" + sized(`{"sample_rate":5}`) + "SUB_ORDERED t c 0\n", "E_INVALID order consume is not allowed while sample rate is not 0"},
		{"a place of another kind", "SUB_ADVANCED t c 0 count:1\n", "E_INVALID invalid consume offset: count:1"},
		{"a place without a number", "SUB_ADVANCED t c 0 msgcount\n", "E_INVALID invalid consume offset: msgcount"},
		{"a time in µs", "SUB_ADVANCED t c 0 timestamp:1764349789000000\n", "E_INVALID invalid consume offset: timestamp:1764349789000000 " +
			"is not a valid time: it must be in seconds since 1970, and not after the year 9999"},
		{"a negative place", "SUB_ADVANCED t c 0 timestamp:-1\n", "E_INVALID invalid consume offset: timestamp:-1"},
		{"another special place", "SUB_ADVANCED t c 0 special:0\n", "E_INVALID not supported offset type"},
		{"headers that the client does not know", "SUB_ADVANCED ext c 0\n", "E_SUB_EXTEND_NEED this topic is extended and should identify as extend support."},
		{"headers that the topic has not", extendSupport + "SUB t c\n", "E_SUB_EXTEND_FORBIDDON this topic is not extended and should not identify as extend support."},
		{"no leader", "SUB_ADVANCED moved c 0\n", "E_FAILED_ON_NOT_LEADER "},
		{"no leader, of a partition", "SUB moved c 0\n", "E_FAILED_ON_NOT_LEADER "},
		{"no leader, for a standard client", "SUB moved c\n", "E_SUB_FAILED SUB failed " + failure.NotLeading.Error()},
		{"too few replicas", "SUB_ORDERED closed c 0\n", "E_FAILED_ON_NOT_WRITABLE "},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, Options{})
			w := h.dial(t)
			w.send(test.send)
			if strings.HasPrefix(test.send, "IDENTIFY") {
				w.expect("OK")
			}
			w.expect(test.want, "EOF")
		})
	}
}

// A FIN at a node that leads no longer closes the connection of an extended client, so that it
// looks up the leader. A standard client continues.
func TestFinAfterLeadershipLoss(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.send("PUB lost\n" + sized("a") + "PUB lost\n" + sized("b") + "SUB_ADVANCED lost c 0\nRDY 1\n")
	for range 4 {
		w.frame()
	}
	w.send("FIN " + binaryID(0, strings.Repeat("\x00", 8)) + "\n")
	w.expect("E_FAILED_ON_NOT_LEADER ", "EOF")
	w = h.dial(t)
	w.send("SUB lost d\nRDY 1\n")
	w.expect("OK")
	w.frame()
	w.send("FIN " + fakeIDs.ID(0).String() + "\nRDY 1\n")
	w.expect("E_FIN_FAILED FIN " + fakeIDs.ID(0).String() + " failed " + failure.NotLeased.Error())
}

func TestClientsCreateTopicsOnSingleNode(t *testing.T) {
	var made []string
	h := newHarness(t, Options{CreateTopic: func(_ context.Context, name string, partitions int, ext bool) error {
		made = append(made, fmt.Sprint(name, partitions, ext))
		if name == "several" {
			return ErrClustered
		}
		return nil
	}})
	w := h.dial(t)
	w.send("INTERNAL_CREATE_TOPIC t 0\nINTERNAL_CREATE_TOPIC t 2 true\nINTERNAL_CREATE_TOPIC t 0 false x\nINTERNAL_CREATE_TOPIC several 0\nNOP\n")
	w.expect("OK", "OK", "OK", "E_CREATE_TOPIC_FAILED CREATE_TOPIC is not allowed here while cluster feature enabled.")
	for send, want := range map[string]string{
		"INTERNAL_CREATE_TOPIC t\n":         "E_INVALID CREATE_TOPIC insufficient number of parameters",
		"INTERNAL_CREATE_TOPIC b@d 0\n":     `E_BAD_TOPIC topic name "b@d" is not valid`,
		"INTERNAL_CREATE_TOPIC t x\n":       "E_BAD_PARTITION topic partition is not valid: x",
		"INTERNAL_CREATE_TOPIC t 1024\n":    "E_BAD_PARTITION topic partition is not valid: 1024",
		"INTERNAL_CREATE_TOPIC t -1\n":      "E_BAD_PARTITION partition should not less than 0",
		"INTERNAL_CREATE_TOPIC t 0 maybe\n": "E_BAD_EXT topic ext is not valid: maybe",
		"CREATE_TOPIC t 0\n":                "E_INVALID invalid command CREATE_TOPIC",
	} {
		bad := h.dial(t)
		bad.send(send)
		bad.expect(want, "EOF")
	}
	if diff := cmp.Diff([]string{"t1 false", "t3 true", "t1 false", "several1 false"}, made); diff != "" {
		t.Error(diff)
	}
}

// FuzzStart checks that every accepted start is a position or the default.
func FuzzStart(f *testing.F) {
	f.Add([]byte("timestamp:1"))
	f.Add([]byte("special:-1"))
	f.Add([]byte("virtual_queue:99999999999999999999"))
	f.Fuzz(func(t *testing.T, text []byte) {
		start, err := startParam(text)
		if err == nil && (!start.Valid() || start.Kind == topic.StartAnywhere && len(text) > 0) {
			t.Errorf("%q is %+v", text, start)
		}
	})
}
