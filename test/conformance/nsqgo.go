package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The test suite of Segment's Go client, from the module proxy. The tests of its own
// nsqlookupd, in a separate folder, use no broker.
const (
	nsqGoModule = "github.com/segmentio/nsq-go@v1.2.4"
	nsqGoSum    = "h1:w3fK/N+Yl2bsNjJqhekmUYiVYtDwhNIr+f0lo/hGgYY="
	nsqGoTests  = 19
)

// nsqGoOld are the tests that query nsqlookupd, and fail with nsqd 1.3.0 as well: the client
// understands only the answers of nsqlookupd 0.3. Two of them also need three nsqds.
var nsqGoOld = []string{"TestConsumer", "TestLookup", "TestRequeue"}

// nsqGo runs the tests of segmentio/nsq-go.
func nsqGo(e env) (string, error) {
	g := goTests{src: moduleSource(e, nsqGoModule, nsqGoSum), data: filepath.Join(e.scratch, "data"), tests: nsqGoTests, cannot: nsqGoOld}
	count, err := g.test(e)
	return fmt.Sprintf("%d of %d passed (%s want nsqlookupd 0.3)", count.passed, nsqGoTests, strings.Join(nsqGoOld, ", ")), err
}
