package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// owner identifies the process that stored a marker, as far as another process on the same machine
// can tell whether it still runs. Empty fields are not known.
type owner struct {
	Host    string `json:"host"`    // for people
	Boot    string `json:"boot"`    // of the kernel
	Space   string `json:"space"`   // of process ids: containers have their own
	PID     int    `json:"pid"`     // in it
	Started string `json:"started"` // in ticks since the kernel's start: ids are used again
}

// procRoot is where the system describes its processes.
const procRoot = "/proc"

// thisOwner returns this process.
func thisOwner(root string) owner {
	host, _ := os.Hostname()
	o := owner{Host: host, PID: os.Getpid()}
	if boot, err := os.ReadFile(root + "/sys/kernel/random/boot_id"); err == nil {
		o.Boot = strings.TrimSpace(string(boot))
	}
	o.Space, _ = os.Readlink(root + "/self/ns/pid")
	o.Started, _ = startOf(root, o.PID)
	return o
}

// startOf returns when a process started, and false if there is none.
func startOf(root string, pid int) (start string, runs bool) {
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", root, pid))
	if err != nil {
		return "", !os.IsNotExist(err) || known(pid)
	}
	const startField = 19 // behind the name in parentheses, which may contain anything
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= startField {
		return "", true
	}
	return fields[startField], true
}

// known reports whether the kernel may have a process. /proc with the option hidepid=2 hides those of
// other users.
func known(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// encode returns the content of a marker.
func (o owner) encode() []byte {
	text, _ := json.Marshal(o) // it has only text
	return text
}

// ended reports whether the process that stored a marker with the given content has certainly
// ended, as seen by this one.
func (o owner) ended(root string, marker []byte) bool {
	var by owner
	if json.Unmarshal(marker, &by) != nil || by.Boot == "" || by.Space == "" || by.Started == "" || by.Boot != o.Boot || by.Space != o.Space {
		return false
	}
	start, runs := startOf(root, by.PID)
	return !runs || start != "" && start != by.Started
}
