// Package blackbox tests the built programs as their users run them: real processes on their own
// ports, accessed over sockets, signalled, killed and restarted on the same data. It knows the outer
// contract (the NSQ protocol, the HTTP interfaces, command lines, exit codes) and no internals. It
// does not repeat what a package's own tests can check with a fake; it is for behaviour that only
// shows when everything is wired together.
//
// It has no code outside its tests.
package blackbox
