package local

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// The guard starts, and the operator's command works: so their legs are encrypted, too.
func TestWithTLSEveryLegOfAWorkerIsEncrypted(t *testing.T) {
	for _, elections := range scenario.AllElections {
		t.Run(string(elections), func(t *testing.T) {
			s, _ := built(t, func(b *system.Build) {
				b.Topology.TLS, b.Topology.Elections = true, elections
			})
			ctx := limited(t)
			status(t, ctx, s)
			noToken(t, ctx, s)
			guard := s.links[ends{"worker-1", "guard"}]
			for name, address := range map[string]string{
				"the guard": guard[0].Addr(), "Postgres": s.pg.Addr(),
			} {
				_, err := pgx.Connect(ctx, (*encryption)(nil).postgres("app", address, database))
				if err == nil || !strings.Contains(err.Error(), "TLS") && !strings.Contains(err.Error(), "no "+
					"encryption") {
					t.Errorf("%s without TLS: %v", name, err)
				}
			}
			plain, err := net.Dial("tcp", guard[1].Addr())
			must.Succeed(t, err)
			defer plain.Close()
			send(t, plain, "PING\r\n")
			arrives(t, plain, "-ERR guard: TLS is required")
			o, err := redismarks.ParseURL(s.tls.redis(s.leg(s.redis.Addr()), "0"))
			if err != nil || o.TLSConfig == nil || o.Addr == s.redis.Addr() {
				t.Errorf("guards reach Redis with %+v, %v", o, err)
			}
			url, err := s.linkCoordinator("worker-1")
			must.Succeed(t, err)
			co, err := system.OpenCoordinator(ctx, url, coordinators.Options{})
			must.Succeed(t, err)
			defer co.Close()
			if _, err := co.Issuer(ctx); err != nil {
				t.Error(err)
			}
			if !strings.Contains(url, "sslrootcert=") {
				t.Errorf("the coordinator is reached at %s", url)
			}
		})
	}
}
