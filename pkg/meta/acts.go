package meta

import (
	"net"
	"slices"
	"strings"
)

// actClass is a class of acts, each of which has its own bound in the audit log: acts of one class displace none of
// another.
type actClass uint8

const (
	actSecurity    actClass = iota // of users, tokens, rules and members of the cluster
	actDestructive                 // that delete, skip or move past messages
	actOther
	actClasses
)

// mostActs are the bounds of the classes, together maxActs.
var mostActs = [actClasses]int{actSecurity: 2000, actDestructive: 1500, actOther: maxActs - 2000 - 1500}

// destructive are the last segments of paths whose acts delete messages, or keep them from being delivered.
var destructive = []string{"delete", "empty", "purge", "seek", "skip", "setoffset", "cancel", "elect", "repair", "acknowledge-loss", "tombstone"}

// class returns the class of an act, by its verb: a method and a path, or a word for what nodes did.
func (a *Act) class() actClass {
	method, path, http := strings.Cut(a.Verb, " ")
	path, _, _ = strings.Cut(path, "?")
	switch {
	case !http, path == "/v1/access", strings.HasPrefix(path, "/v1/access/"), path == "/v1/nodes", strings.HasPrefix(path, "/v1/nodes/"):
		return actSecurity
	case method == "DELETE", slices.Contains(destructive, path[strings.LastIndexByte(path, '/')+1:]):
		return actDestructive
	}
	return actOther
}

// SystemUser begins the identity of an act of a client that named only its operating system's user. It proves nothing.
const SystemUser = "os:"

// by returns who did an act: the user, or the address without its port.
func (a *Act) by() string {
	if a.Identity != "" && !strings.HasPrefix(a.Identity, SystemUser) {
		return a.Identity
	}
	if host, _, err := net.SplitHostPort(a.Actor); err == nil {
		return host
	}
	return a.Actor
}

// keepAct appends an act to the audit log. If its class is full, the oldest act of the one who has most of that class is
// dropped: a flood displaces itself, and no act of others. Lists returned before do not change.
func keepAct(all []*Act, a *Act) []*Act {
	class, n := a.class(), 0
	if len(all) >= mostActs[class] {
		for _, b := range all {
			if b.class() == class {
				n++
			}
		}
	}
	if n < mostActs[class] {
		return append(all, a)
	}
	of, most := map[string]int{a.by(): 1}, 0
	for _, b := range all {
		if b.class() == class {
			by := b.by()
			of[by]++
			most = max(most, of[by])
		}
	}
	i := slices.IndexFunc(all, func(b *Act) bool { return b.class() == class && of[b.by()] == most })
	return slices.Concat(all[:i], all[i+1:], []*Act{a})
}
