package trace

import (
	"fmt"
	"testing"

	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestContextsAreReadFromHeaders(t *testing.T) {
	for header, want := range map[string]string{
		``:                     "",
		`{}`:                   "",
		`{"a":"traceparent"}`:  "",
		`{"traceparent":7}`:    "",
		`{"traceparent":null}`: "",
		`{"x":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`: "",
		`{"traceparent":"` + parent:                                                   "",
		`{"a":1,"traceparent":"` + parent + `"}`:                                      "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 true",
		`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}`:   "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 false",
		`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"}`: "",
		`{"traceparent":"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-x"}`: "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 true",
		`{"traceparent":"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"}`:  "",
		`{"traceparent":"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`:   "",
		`{"traceparent":"00-00000000000000000000000000000000-b7ad6b7169203331-01"}`:   "",
		`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}`:   "",
		`{"traceparent":"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"}`:   "",
		`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"}`:    "",
		`{"traceparent":"zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`:   "",
		`{"traceparent":"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`:   "",
	} {
		got := ""
		if c := contextOf([]byte(header)); c.Valid() {
			got = fmt.Sprintf("%x %x %v", c.TraceID, c.SpanID, c.Sampled())
		} else if c != (Context{}) {
			t.Errorf("%s: %+v is not the zero Context", header, c)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

func FuzzContexts(f *testing.F) {
	f.Add([]byte(`{"traceparent":"` + parent + `"}`))
	f.Fuzz(func(t *testing.T, header []byte) {
		if c := contextOf(header); c != (Context{}) && !c.Valid() {
			t.Errorf("%+v", c)
		}
	})
}

// exported collects the events passed to an exporter.
type exported []string

func (x *exported) Export(e Exported) {
	line := fmt.Sprintf("%s@%d of %d", e.What, e.Message.ID.Offset(), e.Origin.Offset())
	if e.Count > 1 {
		line += fmt.Sprintf(" x%d", e.Count)
	}
	if e.Context.Valid() {
		line += fmt.Sprintf(" %x", e.Context.SpanID)
	}
	*x = append(*x, line)
}

// An exporter receives each event, with the publisher's context if the header is available.
func TestExporterReceivesContexts(t *testing.T) {
	r, err := sampling.ParseRule("on")
	if err != nil {
		t.Fatal(err)
	}
	var got exported
	s := Open(Options{FS: vfs.NewMem(), Dir: "trace", Exporter: &got})
	p := Source{Store: s, Incarnation: 1, Partition: 3, Numbering: numbering}.Under(r)
	header := []byte(`{"traceparent":"` + parent + `"}`)
	p.Publish(make([]record.Message, 3), at(1)).Appended(4)
	x := p.Publish([]record.Message{{}, {Header: header}}, at(1))
	copy(header, "garbage of the next command")
	x.Appended(7)
	p.Committed(4, 5, at(2))
	of := record.Address{Channel: 1, Partition: 3, Offset: 8}
	p.Step(&Step{What: Delivered, Offset: 20, Channel: "c", At: at(3), CopyOf: &of, Header: []byte(`{"traceparent":"` + parent + `"}`)})
	p.Step(&Step{What: Finished, Offset: 20, Channel: "c", At: at(4)})
	p.Publish([]record.Message{{Address: &of}}, at(5)).Appended(21)
	want := "[published@4 of 4 x3 published@7 of 7 published@8 of 8 b7ad6b7169203331 committed@4 of 4 x5 " +
		"delivered@20 of 8 b7ad6b7169203331 finished@20 of 20 published@21 of 8]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v\nwant %s", got, want)
	}
	if e := s.Find(Query{Messages: []Message{{1, seq.NewMessageID(3, 20)}}}).Events; len(e) != 2 {
		t.Errorf("kept: %+v", e)
	}
}
