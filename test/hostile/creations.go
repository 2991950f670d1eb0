package main

import (
	"fmt"
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
	err = f.send(magic)
	for i := 0; err == nil; i++ {
		if err = f.send(fmt.Sprintf("PUB made-%s-%d\n%s", port, i, sized("x"))); err == nil {
			_, err = answer(f)
		}
	}
	return err
}
