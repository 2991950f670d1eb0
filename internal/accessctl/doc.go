// Package accessctl is the part of brokerctl that is about access: the commands for users,
// tokens, rules and contexts, and where the credentials come from that brokerctl shows.
//
// It refuses to know how answers are printed: whoever adds the commands gives them a Shell.
// Secrets come from files, standard input and variables, never from a command line.
package accessctl
