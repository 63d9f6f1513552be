package redis

import "context"

// Drop is drop, for a test of what happens between the look and the deletion.
func (s *Store) Drop(ctx context.Context) error { return s.drop(ctx) }

// DropBlindly runs the script that deletes, and names no session that has ended.
func (s *Store) DropBlindly(ctx context.Context) (verdict string, err error) {
	r, err := s.run(ctx, uninstallScript, nil, "drop", "", "")
	return r.verdict, err
}
