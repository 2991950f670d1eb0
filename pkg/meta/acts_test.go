package meta

import (
	"fmt"
	"slices"
	"testing"
)

func TestActsHaveClasses(t *testing.T) {
	for verb, want := range map[string]actClass{
		"JOIN":                                         actSecurity,
		"POST /v1/access/users":                        actSecurity,
		"DELETE /v1/access/tokens/1":                   actSecurity,
		"POST /v1/access/enable":                       actSecurity,
		"DELETE /v1/nodes/n1":                          actSecurity,
		"DELETE /v1/topics/t":                          actDestructive,
		"DELETE /v1/topics?topic=..":                   actDestructive,
		"POST /topic/delete":                           actDestructive,
		"POST /channel/empty":                          actDestructive,
		"POST /v1/topics/t/channels/c/seek":            actDestructive,
		"POST /v1/topics/t/channels/c/deferred/cancel": actDestructive,
		"POST /v1/topics":                              actOther,
		"PATCH /v1/topics/delete":                      actDestructive, // by its name: it is kept longer than it must be
		"POST /v1/accessories":                         actOther,
		"POST /topic/create":                           actOther,
	} {
		if got := (&Act{Verb: verb}).class(); got != want {
			t.Errorf("%s: %d, want %d", verb, got, want)
		}
	}
	if sum := mostActs[actSecurity] + mostActs[actDestructive] + mostActs[actOther]; sum != maxActs {
		t.Errorf("%d together", sum)
	}
}

// TestFloodOfActsDisplacesItself: neither what others did, nor acts of another class.
func TestFloodOfActsDisplacesItself(t *testing.T) {
	var s State
	index := uint64(0)
	record := func(n int, a Act) {
		for range n {
			index++
			s.Apply(index, RecordAct{a})
		}
	}
	const grant, remove, create = "POST /v1/access/users/mal/grant", "DELETE /v1/topics/orders", "POST /v1/topics"
	record(3, Act{Verb: grant, Identity: "ops"})
	record(3, Act{Verb: remove, Identity: "joe"})
	record(3, Act{Verb: create, Actor: "10.0.0.1:5"})
	for _, verb := range []string{create, remove, grant} {
		record(mostActs[(&Act{Verb: verb}).class()]+100, Act{Verb: verb, Identity: "mal", Actor: "10.0.0.1:7"})
	}
	for i := range mostActs[actOther] {
		record(1, Act{Verb: create, Actor: fmt.Sprintf("10.0.0.2:%d", i), Identity: SystemUser + fmt.Sprint(i)})
	}
	acts := JournalOf(&s).Acts()
	count := func(verb, by string) (n int) {
		for _, a := range acts {
			if a.Verb == verb && a.by() == by {
				n++
			}
		}
		return n
	}
	if len(acts) != maxActs || !slices.IsSortedFunc(acts, func(a, b *Act) int { return int(a.Index) - int(b.Index) }) || acts[len(acts)-1].Index != index {
		t.Errorf("%d acts", len(acts))
	}
	if count(grant, "ops") != 3 || count(remove, "joe") != 3 || count(create, "10.0.0.1") != 3 {
		t.Error("acts of others are displaced")
	}
	// Two that flood have the same share.
	other := mostActs[actOther] - 3
	if one, two := count(create, "mal"), count(create, "10.0.0.2"); one+two != other || one < other/2-1 || two < other/2-1 {
		t.Errorf("%d and %d of two that create", one, two)
	}
	var late []uint64
	for _, a := range acts {
		if a.Verb == grant && a.Identity == "mal" {
			late = append(late, a.Index)
		}
	}
	if len(late) != mostActs[actSecurity]-3 || late[len(late)-1]-late[0] != uint64(len(late)-1) {
		t.Error("the newest are not kept")
	}
}

// TestManyActorsDisplaceTheOldest: where no actor has more than others.
func TestManyActorsDisplaceTheOldest(t *testing.T) {
	var s State
	for i := range maxActs {
		s.Apply(uint64(i+1), RecordAct{Act{Verb: "POST /v1/topics", Identity: fmt.Sprint(i)}})
	}
	acts := JournalOf(&s).Acts()
	if len(acts) != mostActs[actOther] || acts[0].Identity != fmt.Sprint(maxActs-mostActs[actOther]) {
		t.Errorf("%d acts from %+v", len(acts), acts[0])
	}
}
