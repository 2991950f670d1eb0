// Package arch enforces the rules of this repository as tests: which package may import which, what
// must be documented, how large packages, files and types may grow, and what must not be committed.
//
// It reads the sources as text and syntax trees; from go/types it uses only the method sets of
// types. It has no code outside its tests.
package arch
