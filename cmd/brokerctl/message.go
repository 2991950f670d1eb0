package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newMessageCommand(g *globals) *cobra.Command {
	return newGroup("message", "Publish, consume and inspect messages",
		newMessagePubCommand(g), newMessageTailCommand(g), newMessagePeekCommand(g),
		newMessageGetCommand(g), newMessageFinishCommand(g), newMessageRequeueCommand(g), newMessageCopyCommand(g),
		newMessageDeferredCommand(g), newMessageCancelCommand(g), newMessageAdvanceCommand(g),
		newMessageExportCommand(g), newMessageImportCommand(g),
		newMessageTraceCommand(g))
}

// bodyWidth is how much of a body a table shows.
const bodyWidth = 60

// bodyText makes a body fit for one line of a terminal: quoted where it is not
// plain text, cut after width characters; 0: not cut.
func bodyText(body []byte, width int) string {
	text := string(body)
	plain := utf8.Valid(body) && strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
	if !plain {
		text = strconv.QuoteToASCII(text)
	}
	if runes := []rune(text); width > 0 && len(runes) > width {
		text = string(runes[:width-1]) + "…"
	}
	return text
}

// bodyCell is a body in a table: cut, unless it is wide.
func (g *globals) bodyCell(body []byte) string {
	if g.format == formatWide {
		return bodyText(body, 0)
	}
	return bodyText(body, bodyWidth)
}

// timeText writes a time in the form that --to and --from take.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// place is a message's place in its topic: PARTITION/SEQ.
func place(m api.Peeked) string { return fmt.Sprintf("%d/%d", m.Partition, m.Seq) }

// writeMessage prints one message of a stream: its body alone, or for wide with
// what is known of it.
func (g *globals) writeMessage(p *page, m api.Peeked) error {
	if g.format == formatYAML {
		p.line("---")
	}
	return view{
		object: m,
		names:  []string{m.ID},
		text: func(p *page) {
			if p.wide {
				p.line("%s  %s  %s  %d  %s", place(m), m.ID, timeText(m.Timestamp), m.Attempts, bodyText(m.Body, 0))
				return
			}
			p.line("%s", m.Body)
		},
	}.write(p, g.format)
}
