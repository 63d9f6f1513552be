package redismarks

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Identify returns the session of a client id that the client's own connection reported. Before,
// the guard gave that connection the nonce as a name. Identify checks on the control connection
// that the client of this id has that name. Without that proof the two connections may lead to
// different servers, behind a load balancer or while Sentinel fails over, and the id may be another
// client's.
func (s *Store) Identify(ctx context.Context, id int64, nonce string) (marks.SessionID, error) {
	run, line, err := s.listed(ctx, id)
	if err != nil {
		return marks.SessionID{}, err
	}
	known := strings.HasPrefix(line, fmt.Sprintf("id=%d ", id)) &&
		strings.Contains(line, " name="+nonce+" ")
	if !known || run == "" {
		return marks.SessionID{}, wrongServer(id,
			"it is not known to the server of the guard's own connection, run "+run)
	}
	return marks.SessionID{ID: id, Run: run, User: fieldOf(line, "user")}, nil
}

// listed asks the server for its run, and for the lines of these clients in CLIENT LIST.
func (s *Store) listed(ctx context.Context, ids ...any) (run, lines string, err error) {
	err = retry(ctx, func() error {
		p := s.db.Pipeline()
		info := p.Info(ctx, "server")
		list := p.Do(ctx, append([]any{"CLIENT", "LIST", "ID"}, ids...)...)
		_, err := p.Exec(ctx)
		if err == nil {
			lines, err = list.Text()
		}
		run = runID(info.Val())
		return err
	})
	return run, lines, Explain(err)
}

// byID returns the lines of CLIENT LIST by client id.
func byID(list string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(list) {
		if id, _, ok := strings.Cut(strings.TrimPrefix(line, "id="), " "); ok {
			all[id] = line
		}
	}
	return all
}

// fieldOf returns a field of a line of CLIENT LIST. Neither a client's name nor a user's has a
// space.
func fieldOf(line, field string) string {
	_, value, _ := strings.Cut(line, " "+field+"=")
	value, _, _ = strings.Cut(value, " ")
	return strings.TrimSpace(value)
}

// wrongServer is the error for a client's connection that does not lead to the store's server.
func wrongServer(id int64, why string) error {
	return &fence.SetupError{
		What: fmt.Sprintf("client %d is on another server than the marks: %s", id, why),
		Hint: "guard and clients must reach one and the same Redis server: " +
			"no load balancer and no pooler in between; during a failover try again",
		Passes: true,
	}
}
