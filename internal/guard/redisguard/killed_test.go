package redisguard

import (
	"context"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// killing is a store whose server ends each session as soon as it is registered, as another guard
// does that recovers a lost registry.
type killing struct {
	marks.Store
	db *driver.Client
}

func (k killing) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	r, err := k.Store.Register(ctx, s, claims)
	if err == nil && r.Next == marks.Admitted {
		err = k.db.Do(ctx, "CLIENT", "KILL", "ID", s.ID).Err()
	}
	return r, err
}

func TestANewcomerThatIsEndedIsToldThatItsOwnConnectionWas(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	db := driverTo(t, server.Addr(), nil)
	g := before(t, server, setup{wrap: func(s marks.Store) marks.Store { return killing{s, db} }})
	r := g.raw()
	r.send("FENCE orders 5\r\n")
	r.expect(
		"-REVOKE the connection to Redis was closed while this session of \"orders\" was admitted",
	)
	r.ended()
}
