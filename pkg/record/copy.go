package record

import "time"

// CopyTo returns a copy of a record for one channel, to be delivered after a delay; age is
// how long ago the record was appended, and ttl how long it may live if it does not say so,
// 0 for ever. The copy has the timestamp of the first message, no dedup id (who
// retries the publish is to find the original), and what is left of its time to live. Its
// bytes are its own. It returns false for a record that is for another channel, or none.
func CopyTo(a Address, raw []byte, delay, age, ttl time.Duration) (Message, bool) {
	m, err := Decode(append([]byte(nil), raw...))
	if err != nil || m.Address != nil && m.Address.Channel != a.Channel {
		return Message{}, false
	}
	if m.Address != nil {
		a.Timestamp = m.Address.Timestamp
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
