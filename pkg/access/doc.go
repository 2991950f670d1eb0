// Package access decides who may do what: users with credentials and rules as a pure value, and
// the check of one request; and which nodes may join the cluster, if that needs a join token.
//
// It knows rules, how they match, and how credentials are created, hashed and compared. It does
// not know connections, requests or where the value is stored: it reads no clock, and
// randomness is an argument.
//
// Invariants:
//
//  1. Everything that no rule grants is denied; there are no deny rules.
//  2. A *Directory is immutable. A change returns a new one, or is refused.
//  3. A Directory holds hashes of credentials and public keys, never the credentials.
//  4. With access control on there is an administrator with a credential that does not expire:
//     a change that would leave none is refused.
//
// Start at Directory.Check and Directory.Apply.
package access
