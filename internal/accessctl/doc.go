// Package accessctl is brokerctl's part for access: the commands for users, tokens, rules
// and contexts, and the lookup of the credentials that brokerctl presents.
//
// It does not know how answers are printed: the caller that adds the commands passes a
// Shell for that. Secrets come from files, standard input and variables, never from a
// command line.
package accessctl
