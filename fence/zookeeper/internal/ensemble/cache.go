package ensemble

import "sync"

// Cache holds what was read in the client's current session. The next session starts with an empty
// cache, so it keeps nothing of an ensemble that has since been wiped, restored or replaced. The
// zero value is ready to use, with one client.
type Cache[T any] struct {
	mu      sync.Mutex
	session *Session // in which the value was read
	value   T
}

// Use calls do with the value, which do may read and change. The first call in a session gets the
// zero value. If the client has dropped the session, Use returns false and does nothing.
func (c *Cache[T]) Use(s *Session, do func(*T)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Client.Current() != s {
		return false
	}
	if c.session != s {
		var empty T
		c.session, c.value = s, empty
	}
	do(&c.value)
	return true
}
