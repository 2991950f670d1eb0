// Package guard finds out which user a credential belongs to, and whether that is still so
// when users and rules have changed.
//
// It decides how credentials are checked, how many passwords are hashed at a time, and how
// many failures an address may have. pkg/access decides what a user may do; guard knows no
// protocols, and not which right a request needs.
//
// Invariants:
//
//  1. A credential is valid as long as the directory has it: an Identity does not outlive its
//     token, its certificate's name or its user.
//  2. A valid token is never refused because of failures of other clients at its address.
//  3. At most a few passwords are hashed at a time, however many requests there are.
//  4. No credential is kept or logged. A keyed hash of a password that was right is kept for a while.
//
// Start at Guard.Token and Identity.User.
package guard
