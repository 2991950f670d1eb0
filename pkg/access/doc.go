// Package access is who may do what, as a pure value: users with their credentials and
// rules, and the decision whether one of them may do something.
//
// It knows rules, how they match, and how credentials are made, hashed and compared. It
// refuses to know connections, requests and where the value is kept: it reads no clock,
// and randomness comes in as an argument.
//
// Invariants:
//
//  1. Nobody may do what no rule grants: there are no rules that forbid.
//  2. A *Directory never changes. A change makes another, or is refused and makes none.
//  3. A Directory holds hashes of credentials, never the credentials.
//  4. Where access control is on there is an administrator with a credential that does
//     not expire: a change that would leave none is refused.
//
// Start at Directory.Check and Directory.Apply.
package access
