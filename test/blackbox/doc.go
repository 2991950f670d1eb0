// Package blackbox checks the built programs as their users meet them: real
// processes on ports of their own, spoken to over sockets, signalled, killed and
// started again on the same data. It knows the outer contract (the NSQ protocol,
// the HTTP interfaces, command lines, exit codes) and nothing of what is behind
// it. What a package's own tests can see with a fake beside it is not repeated
// here; this is for what only shows when everything is wired together.
//
// It has no code outside its tests.
package blackbox
