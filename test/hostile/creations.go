package main

import (
	"fmt"
	"io"
	"net"
)

// mayCreate is how many topics and channels one address may create at once: so few that
// an attack uses them up.
const mayCreate = "1000"

// creates publishes to one topic after the other that there is not, and continues when it
// is refused.
func creates(f *foe) error {
	_, port, err := net.SplitHostPort(f.LocalAddr().String())
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, magic); err != nil {
		return err
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("made-%s-%d", port, i)
		if _, err := io.WriteString(f, "PUB "+name+"\n"+sized("x")); err != nil {
			return err
		}
		if _, err := answer(f); err != nil {
			return err
		}
	}
}
