// Package arch holds the rules of the house as tests: which package may import
// which, what every package and exported name must say of itself, how large a
// thing may grow, and what has no place in this repository.
//
// It reads the sources as text and syntax trees. Of their meaning it knows one
// thing, from go/types: which methods a type has. It has no code of its own outside its tests.
package arch
