package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// The guard, the lab itself and the elections in the store follow the primary.
func TestAStandbyTakesThePlaceOfPostgres(t *testing.T) {
	s, _ := built(t, func(b *system.Build) {
		b.Topology.Cluster, b.Topology.Elections = scenario.Standbys, scenario.InTheStore
	})
	ctx := limited(t)
	primary := func(want string) {
		t.Helper()
		if name, err := s.Primary(ctx); name != want || err != nil {
			t.Fatalf("the primary is %s, not %s: %v", name, want, err)
		}
		if name, err := s.CoordinatorLeader(ctx); name != want || err != nil {
			t.Errorf("the elections are at %s: %v", name, err)
		}
	}
	primary(scenario.Postgres1)
	must.Succeed(t, s.Kill(ctx, scenario.Postgres1))
	must.Succeed(t, s.MakePrimary(ctx, scenario.Postgres3))
	primary(scenario.Postgres3)
	status(t, ctx, s)
	eventually(t, "the guard refuses a session without a token", func() bool {
		_, err := pgx.Connect(ctx, s.asApp(s.links[ends{"worker-1", "guard"}][0].Addr()))
		pg, ok := errors.AsType[*pgconn.PgError](err)
		return ok && strings.HasPrefix(pg.Code, "RF")
	})
	if err := s.Crash(ctx, scenario.Postgres2); err == nil {
		t.Error("a standby without Patroni has crashed, and nobody starts it again")
	}
}

func TestSentinelReplacesRedis(t *testing.T) {
	s, _ := built(t, func(b *system.Build) { b.Topology.Replica, b.Topology.Sentinels = true, true })
	ctx := limited(t)
	first := s.Addresses().Redis
	must.Succeed(t, s.SwitchOver(ctx))
	if now := s.Addresses().Redis; now == first {
		t.Error("the evidence is still read at", now)
	}
	status(t, ctx, s)
}
