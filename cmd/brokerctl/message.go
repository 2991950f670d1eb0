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

// bodyWidth is the displayed length of a body in a table.
const bodyWidth = 60

// bodyText formats a body for one line of a terminal: quoted if it is not plain text, truncated
// after width characters (0: never).
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

// bodyCell formats a body for a table: truncated, unless the table is wide.
func (g *globals) bodyCell(body []byte) string {
	if g.format == formatWide {
		return bodyText(body, 0)
	}
	return bodyText(body, bodyWidth)
}

// timeText formats a time as accepted by --to and --from.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// place formats the position of a message in its topic: PARTITION/SEQ.
func place(m api.Peeked) string { return fmt.Sprintf("%d/%d", m.Partition, m.Seq) }

// writeMessage prints one message of a stream: only the body, or with details in wide format.
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
