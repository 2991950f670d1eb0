// Package guard says who somebody is that shows a credential, and whether he still is that
// when the rules have changed.
//
// It decides how credentials are checked, how many passwords at a time, and how many failures
// an address has. What may be done it leaves to pkg/access; it refuses to know protocols and
// which right an act needs.
//
// Invariants:
//
//  1. A credential counts as long as the directory has it: an Identity is nothing that
//     outlives its token, its certificate's name or its user.
//  2. A valid token is never refused because others of its address have failed.
//  3. At most a few passwords are hashed at a time, whatever is asked.
//  4. No credential is kept or logged; of a password that was right, a keyed hash is kept for a
//     while.
//
// Start at Guard.Token and Identity.User.
package guard
