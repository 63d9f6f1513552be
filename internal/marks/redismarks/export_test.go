package redismarks

import "context"

// Drop is drop, for a test of what happens between the look and the deletion.
func (s *Store) Drop(ctx context.Context) error { return s.drop(ctx) }

// DropBlindly runs the script that deletes, and names no session that has ended.
func (s *Store) DropBlindly(ctx context.Context) (verdict string, err error) {
	r, err := s.eval(ctx, uninstallScript, nil, "drop", "", "")
	if err != nil {
		return "", err
	}
	return r.verdict(), nil
}

// PlainScripts has all scripts run in the form for Redis before 7.0, until restore is called.
func PlainScripts() (restore func()) {
	all := []*storeScript{
		&registerScript, &lookScript, &raiseScript, &othersScript, &releaseScript, &marksScript,
		&adoptScript, &endingScript, &installScript, &probeScript, &authorizeScript, &leftScript,
		&leaveScript,
	}
	var before []storeScript
	for _, p := range all {
		before = append(before, *p)
		p.flagged = p.plain
	}
	return func() {
		for i, p := range all {
			*p = before[i]
		}
	}
}

// PingAll answers once every control connection has answered, all at once.
func (s *Store) PingAll(ctx context.Context) error {
	for range s.db.Options().PoolSize {
		c := s.db.Conn()
		defer c.Close() // only then: the next one has to be another one
		if err := c.Ping(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}
