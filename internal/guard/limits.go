package guard

import "cmp"

// Limits are how many connections a Server has at once.
type Limits struct {
	MaxConnections int // admitted sessions; 10,000 when zero
	MaxUnadmitted  int // connections that are not admitted; 1,000 when zero
	MaxLogins      int // logins under way at the server; 40 when zero
}

func (l Limits) defaults() Limits {
	return Limits{
		cmp.Or(l.MaxConnections, 10_000), cmp.Or(l.MaxUnadmitted, 1000), cmp.Or(l.MaxLogins, 40),
	}
}

// waiting returns how many connections may wait for a slot. It is well above twice the number of
// slots because a driver that tries TLS first connects twice, and its first connections are still
// waiting.
func (l Limits) waiting() int { return 4 * l.MaxUnadmitted }

// control is about how many connections a guard needs itself.
const control = 6

// within lowers the limits to what a server has room for that takes n connections. The logins get
// an eighth, so that those of several guards leave room, and sessions leave room for twice the
// logins.
func (l Limits) within(n int) Limits {
	if n <= 0 {
		return l
	}
	l.MaxLogins = max(1, min(l.MaxLogins, n/8))
	l.MaxConnections = max(1, min(l.MaxConnections, n-2*l.MaxLogins-control))
	return l
}
