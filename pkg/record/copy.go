package record

import "time"

// CopyTo returns a copy of a record for one channel, to be delivered after a delay. age is
// how long ago the record was appended, and ttl its default time to live; 0: unlimited. The
// copy has the timestamp and First of the original message, no dedup id (a retried publish must find
// the original), and the rest of its time to live. It shares no memory with raw. CopyTo
// returns false for an invalid record, or one for another channel.
func CopyTo(a Address, raw []byte, delay, age, ttl time.Duration) (Message, bool) {
	m, err := Decode(append([]byte(nil), raw...))
	if err != nil || m.Address != nil && m.Address.Channel != a.Channel {
		return Message{}, false
	}
	a.First = a.Offset
	if m.Address != nil {
		a.Timestamp, a.Chosen = m.Address.Timestamp, !m.Address.Moves || m.Address.Chosen
		if m.Address.Moves {
			a.First = m.Address.First
		}
	}
	if m.TTL == 0 {
		m.TTL = ttl
	}
	if m.TTL > 0 {
		m.TTL = max(1, m.TTL-age)
	}
	m.Delay, m.Dedup, m.Address = delay, nil, &a
	return m, true
}
