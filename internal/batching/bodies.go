package batching

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"text/template"
	"time"
)

// Bodies yields messages. With a count above 0, it yields each message so many times, as a template in which {{.N}}
// is the number of the time, from 1, and {{.Now}} the time. It ends with the first error.
func Bodies(messages []string, count int, now func() time.Time) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, m := range messages {
			if count == 0 {
				if !yield([]byte(m), nil) {
					return
				}
				continue
			}
			t, err := template.New("message").Option("missingkey=error").Parse(m)
			for n := range count {
				var body bytes.Buffer
				if err == nil {
					err = t.Execute(&body, map[string]any{"N": n + 1, "Now": now().UTC().Format(time.RFC3339Nano)})
				}
				if err == nil && body.Len() == 0 {
					err = errors.New("it is empty")
				}
				if err != nil {
					yield(nil, fmt.Errorf("message %q: %w", m, err))
					return
				}
				if !yield(body.Bytes(), nil) {
					return
				}
			}
		}
	}
}
