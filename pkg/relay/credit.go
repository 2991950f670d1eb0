package relay

// Claim is one relay's use of and demand for a subscription's credit.
type Claim struct {
	Credit   int  // current credit
	InFlight int  // messages that the client has from it, or will get
	Starved  bool // with more credit it would get messages
	Filled   bool // it got messages since credit was assigned
	Retiring bool // it will get no more messages
}

// Full reports whether the leader can send nothing more.
func (c Claim) Full() bool {
	return !c.Retiring && c.InFlight >= c.Credit && (c.InFlight > 0 || c.Starved)
}

// Allot splits the flow-control credit of a subscription, ready, among its relays.
// Each relay holds its share at its leader before it is known where messages are;
// others is the number of sources beside the relays. If ready >= number of sources,
// it is split evenly; a source that has more in flight than its share reduces the
// others' until it drains. Otherwise the relays get one message each: first those
// with one in flight, then the starved ones, starting with the one at turn, and
// then those that held credit before.
func Allot(ready, others, turn int, claims []Claim) []int {
	parts := make([]int, len(claims))
	var live []int
	for i, c := range claims {
		if !c.Retiring {
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
		withhold(parts, claims)
		return parts
	}
	left := min(ready, len(live))
	for _, i := range live { // no more than that may be in flight
		left -= max(claims[i].InFlight-1, 0)
	}
	give := func(deserves func(Claim) bool) {
		for k := range live {
			i := live[(turn+k)%len(live)]
			if left > 0 && parts[i] == 0 && deserves(claims[i]) {
				parts[i] = 1
				left--
			}
		}
	}
	give(func(c Claim) bool { return c.InFlight > 0 })
	give(func(c Claim) bool { return c.Starved })
	give(func(c Claim) bool { return c.Credit > 0 })
	give(func(Claim) bool { return true })
	return parts
}

// withhold reduces shares, by credit that is not in flight, by what others have in flight beyond
// their share.
func withhold(parts []int, claims []Claim) {
	over, room := 0, 0
	for i, c := range claims {
		over += max(c.InFlight-parts[i], 0)
		room += max(parts[i]-c.InFlight, 0)
	}
	over = min(over, room)
	for i, c := range claims {
		if own := max(parts[i]-c.InFlight, 0); own > 0 {
			cut := (own*over + room - 1) / room
			parts[i] -= cut
			over, room = over-cut, room-own
		}
	}
}

// Redistribute redistributes credit that is not in flight while a client waits and leaders do not use
// their credit: each relay gets an equal share in addition to what it has in flight, and the
// remainder goes one each to relays that used their credit up first, starting with the one at
// turn. local is the number in flight of local sources, others as for Allot. It returns nil if
// that would help no relay.
func Redistribute(ready, local, others, turn int, claims []Claim) []int {
	free, live, full := ready-local, others, 0
	for _, c := range claims {
		free -= c.InFlight
		if !c.Retiring {
			live++
		}
		if c.Full() {
			full++
		}
	}
	if free <= 0 || full == 0 {
		return nil
	}
	parts := make([]int, len(claims))
	rest := free % live
	give := func(deserves func(Claim) bool) {
		for k := range claims {
			i := (turn + k) % len(claims)
			if rest > 0 && deserves(claims[i]) {
				parts[i]++
				rest--
			}
		}
	}
	give(Claim.Full)
	give(func(c Claim) bool { return !c.Full() && !c.Retiring })
	for i, c := range claims {
		if !c.Retiring {
			parts[i] += c.InFlight + free/live
		}
	}
	return parts
}
