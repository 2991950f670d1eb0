//go:build fakeclock

package age

import (
	"os"
	"strings"
	"time"
)

// System returns the reading of the process's wall clock at a moment that was just read, in ns since 1970. Only
// programs that are built for tests, with the tag fakeclock, have this one: it is ahead of the system's by the
// duration in the file that the environment variable FAKECLOCK names; 0 without the file.
func System(now time.Time) int64 {
	text, err := os.ReadFile(os.Getenv("FAKECLOCK"))
	if err != nil {
		return now.UnixNano()
	}
	ahead, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		panic("BUG: the file of FAKECLOCK: " + err.Error())
	}
	return now.UnixNano() + int64(ahead)
}
