package nodes

import "syscall"

// Child returns the attributes of a process that does not get the signals of Ctrl-C at the terminal.
func Child() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
