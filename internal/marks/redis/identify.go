package redis

import (
	"context"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Identify returns the session of a client id that the client's own connection reported. Before,
// the guard gave that connection the nonce as a name. Identify checks on the control connection
// that the client of this id has that name. Without that proof the two connections may lead to
// different servers, behind a load balancer or while Sentinel fails over, and the id may be another
// client's.
func (s *Store) Identify(ctx context.Context, id int64, nonce string) (marks.Session, error) {
	var info *driver.StringCmd
	var found *driver.Cmd
	err := retry(ctx, func() error {
		p := s.db.Pipeline()
		info = p.Info(ctx, "server")
		found = p.Do(ctx, "CLIENT", "LIST", "ID", id)
		_, err := p.Exec(ctx)
		return err
	})
	if err != nil {
		return marks.Session{}, Explain(err)
	}
	line, _ := found.Text()
	run := runID(info.Val())
	known := strings.HasPrefix(line, fmt.Sprintf("id=%d ", id)) &&
		strings.Contains(line, " name="+nonce+" ")
	if !known || run == "" {
		return marks.Session{}, wrongServer(id,
			"it is not known to the server of the guard's own connection, run "+run)
	}
	return marks.Session{ID: id, Run: run, User: fieldOf(line, "user")}, nil
}

// fieldOf returns a field of a line of CLIENT LIST. Neither a client's name nor a user's has a space.
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
	}
}
