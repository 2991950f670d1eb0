package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

const (
	// quiet is a time for which a living leader is hardly ever silent, unless it or the network is
	// slow: heartbeats are sent every 100 ms.
	quiet = 100 * time.Millisecond
	// unanswered is a time within which a living leader hardly ever fails to answer a question.
	unanswered = 3 * quiet
	// looks is how often a leader that seems dead is checked, each time after another quiet.
	looks = 5
	// succeedEvery is the time that each candidate leaves to those before it.
	succeedEvery = 150 * time.Millisecond
)

// suspicion is the reason why a leader seems dead: the kind of the call with which the other
// voters are asked.
type suspicion uint8

const (
	refusing = suspicion(kindGone)   // its machine refuses connections
	silent   = suspicion(kindSilent) // it does not answer a question
)

// unheard returns for how long a majority must not have heard from the leader. For a silent
// leader, it is this node's timeout for a leader, which is longer if the node itself runs late.
func (s suspicion) unheard(store *raftstore.Store) time.Duration {
	if s == silent {
		return store.Members().LeaderTimeout()
	}
	return quiet
}

// confirmed reports whether another check of the leader had the same result.
func (s suspicion) confirmed(look error) bool {
	if s == silent {
		return look != nil
	}
	return errors.Is(look, syscall.ECONNREFUSED)
}

// succession shortens the election of a new metadata leader after the last one died. By Raft's own
// rules, each voter notices at random times, 0.5 to 1 s apart, that it has not heard from the
// leader for 0.5 s, and a majority must have noticed: 1 s on average, and up to 1.5 s.
//
// But when a process is killed, its machine refuses connections at once. And a leader that hangs
// or is isolated does not answer the questions that voters ask it continually. If a second check
// has the same result, and a majority of the voters has not heard from the leader, for 0.1 s if it
// refuses and for 0.5 s if it is silent, the one of them with the longest log asks for votes. A
// mistake only costs an election: Raft decides who may lead.
type succession struct {
	self      meta.NodeID
	store     *atomic.Pointer[raftstore.Store]
	transport *peer.Transport
	calls     *calls
	work      *tasks
	log       *slog.Logger

	running atomic.Bool
}

// suspect reports that a node seems dead, and why. It does not block.
func (s *succession) suspect(id meta.NodeID, why suspicion) {
	store := s.store.Load()
	if store == nil {
		return
	}
	if leader, known := store.Leader(); !known || leader != id || s.running.Swap(true) {
		return
	}
	if !s.work.start(func() {
		defer s.running.Store(false)
		s.succeed(s.work.ctx, store, id, why)
	}) {
		s.running.Store(false)
	}
}

// succeed starts an election in place of a leader, if the leader is dead and it is this node's
// turn.
func (s *succession) succeed(ctx context.Context, store *raftstore.Store, dead meta.NodeID, why suspicion) {
	address := (*s.calls.roster.members.Load())[dead]
	for range looks {
		if !beat.Pause(ctx, quiet) || replaced(store, dead) {
			return
		}
		look, cancel := context.WithTimeout(ctx, max(quiet, store.Members().LeaderTimeout()/looks))
		_, err := s.transport.Ping(look, address)
		cancel()
		if !why.confirmed(err) {
			return
		}
		place, agreed := s.place(ctx, store, dead, why)
		if !agreed {
			continue
		}
		if !beat.Pause(ctx, time.Duration(place)*succeedEvery) || replaced(store, dead) {
			return
		}
		s.log.Info("metadata leader is dead; starting an election", "leader", dead)
		if err := store.Members().Campaign(); err != nil {
			s.log.Info("cannot start a metadata election; it begins after the election timeout", "error", err)
		}
		return
	}
}

// replaced reports whether another node leads.
func replaced(store *raftstore.Store, dead meta.NodeID) bool {
	leader, known := store.Leader()
	return known && leader != dead
}

// voter is a voter that has not heard from the leader, and the end of its log.
type voter struct {
	id   meta.NodeID
	last uint64
}

// place asks the other voters. It returns whether a majority has not heard from the leader, and this
// node's rank among them.
func (s *succession) place(ctx context.Context, store *raftstore.Store, dead meta.NodeID, why suspicion) (place int, agreed bool) {
	ctx, cancel := context.WithTimeout(ctx, max(quiet, store.Members().LeaderTimeout()/looks))
	defer cancel()
	var mu sync.Mutex // guards silent
	var silent []voter
	note := func(id meta.NodeID, last uint64) {
		mu.Lock()
		defer mu.Unlock()
		silent = append(silent, voter{id, last})
	}
	voters := store.Members().Configuration().Voters()
	var asking sync.WaitGroup
	for _, id := range voters {
		switch id {
		case dead:
		case s.self:
			if last, err := unheard(store, dead, why.unheard(store)); err == nil {
				note(id, last)
			}
		default:
			asking.Go(func() {
				reply, err := s.calls.ask(ctx, id, uint8(why), []byte(dead))
				if err == nil && len(reply) == 8 {
					note(id, binary.LittleEndian.Uint64(reply))
				}
			})
		}
	}
	asking.Wait()
	return placeAmong(s.self, silent, len(voters))
}

// placeAmong returns a node's rank among the voters that have not heard from the leader, the
// longest log first, and whether they are a majority that includes the node.
func placeAmong(self meta.NodeID, silent []voter, voters int) (place int, agreed bool) {
	slices.SortFunc(silent, func(a, b voter) int { return cmp.Or(cmp.Compare(b.last, a.last), cmp.Compare(a.id, b.id)) })
	place = slices.IndexFunc(silent, func(v voter) bool { return v.id == self })
	return place, place >= 0 && len(silent) > voters/2
}

// unheard returns the end of the local Raft log, or an error if this node has heard from the
// leader within the given time.
func unheard(store *raftstore.Store, leader meta.NodeID, within time.Duration) (last uint64, err error) {
	if now, known := store.Leader(); known && now != leader {
		return 0, fmt.Errorf("%w: current leader is %s", failure.LeaderAlive, now)
	}
	if time.Since(store.Members().LeaderContact()) < within {
		return 0, failure.LeaderAlive
	}
	return store.Members().LastIndex(), nil
}
