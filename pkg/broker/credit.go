package broker

// claim is what one relay of a subscription has and wants of the messages that
// may be in flight.
type claim struct {
	credit   int  // that it has
	inFlight int  // that the client has of it, or will get
	starved  bool // it could have something, with more credit
	retiring bool // it is to get nothing more
}

// allot shares out what may be in flight among relays, of which each gets its
// part at its leader before it is known where messages are. others is how many
// sources there are beside the relays. Where there is enough, all get the same.
// Otherwise one message each goes to those that have one in flight, then to
// those that are starved, the one at turn first, and then to those that had it.
func allot(ready, others, turn int, claims []claim) []int {
	parts := make([]int, len(claims))
	var live []int
	for i, c := range claims {
		if !c.retiring {
			live = append(live, i)
		}
	}
	if len(live) == 0 || ready <= 0 {
		return parts
	}
	if all := len(live) + others; ready >= all {
		for k, i := range live {
			parts[i] = ready / all
			if k < ready%all {
				parts[i]++
			}
		}
		return parts
	}
	left := min(ready, len(live))
	give := func(deserves func(claim) bool) {
		for k := range live {
			i := live[(turn+k)%len(live)]
			if left > 0 && parts[i] == 0 && deserves(claims[i]) {
				parts[i] = 1
				left--
			}
		}
	}
	give(func(c claim) bool { return c.inFlight > 0 })
	give(func(c claim) bool { return c.starved })
	give(func(c claim) bool { return c.credit > 0 })
	give(func(claim) bool { return true })
	return parts
}
