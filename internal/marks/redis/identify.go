package redis

import (
	"context"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Identify names the session of a client id that was asked for on a client's own connection. It believes that the
// connection ends at the same server as the control connection only when the client of that id has the nonce for a
// name, which the guard has given it on that connection: behind a load balancer, or while Sentinel fails over, the two
// may be on different servers, where the id is somebody else's.
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
	if !strings.HasPrefix(line, fmt.Sprintf("id=%d ", id)) || !strings.Contains(line, " name="+nonce+" ") || run == "" {
		return marks.Session{}, elsewhere(id, "it is not known to the server of the guard's own connection, run "+run)
	}
	return marks.Session{ID: id, Run: run}, nil
}

// elsewhere is the error of a client's connection that does not lead to the store's server.
func elsewhere(id int64, why string) error {
	return &fence.SetupError{
		What: fmt.Sprintf("client %d is on another server than the marks: %s", id, why),
		Hint: "guard and clients must reach one and the same Redis server: no load balancer and no pooler in between; during a failover try again",
	}
}
