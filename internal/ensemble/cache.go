package ensemble

import "sync"

// Cache holds what was read in the client's present session. It is empty again in the next one, so nothing of an ensemble
// that was wiped since, restored or replaced stays in it. The zero value is good, for one client.
type Cache[T any] struct {
	mu      sync.Mutex
	session *Session // in which the value was read
	value   T
}

// Use calls do with the value, which it may read and change; at first in a session it is the zero value. If the client
// has dropped the session, it returns false and does nothing.
func (c *Cache[T]) Use(s *Session, do func(*T)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.client.Current() != s {
		return false
	}
	if c.session != s {
		var empty T
		c.session, c.value = s, empty
	}
	do(&c.value)
	return true
}
