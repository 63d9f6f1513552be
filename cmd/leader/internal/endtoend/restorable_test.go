package endtoend

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// restorable is a coordinator that can go back to a backup.
type restorable struct {
	t      testing.TB
	url    string
	backup func(context.Context) error
	// restore kills it, puts the backup in its place and starts it again.
	restore func(context.Context) error
	// connect returns a function that uses up one number, and returns it.
	connect func() (count func(context.Context) (fence.Token, error))
}

// onEveryRestorable runs a test with each coordinator that gives out numbers a second time after a
// restore.
func onEveryRestorable(t *testing.T, test func(*testing.T, *restorable)) {
	for name, start := range map[string]func(*testing.T) *restorable{
		"etcd":                restorableEtcd,
		"zookeeper":           restorableZooKeeper,
		"zookeeper, ensemble": restorableEnsemble,
		"postgres, cold copy": restorablePostgres,
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			r.t = t
			test(t, r)
		})
	}
}

// restorableEtcd is restored from a snapshot, with the same name and URLs.
func restorableEtcd(t *testing.T) *restorable {
	e := serverstest.Etcd(t, servers.EtcdOptions{})
	return &restorable{
		url: "etcd://" + e.Addr() + "/e2e", backup: e.Backup, restore: e.Restore,
		connect: func() func(context.Context) (fence.Token, error) {
			admin := etcdtest.Connect(t, e.Addr())
			return func(ctx context.Context) (fence.Token, error) {
				put, err := admin.Put(ctx, "elsewhere", "")
				if err != nil {
					return 0, err
				}
				return fence.Token(put.Header.Revision), nil
			}
		},
	}
}

// restorableZooKeeper is a server alone, whose epoch is always the same.
func restorableZooKeeper(t *testing.T) *restorable {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	return restorableZK(t, z, func(context.Context) error { return z.Backup() })
}

// restorableEnsemble begins a new epoch whenever it starts. The backup is from before the last
// start, so the restored ensemble has the same epoch as the one before, and counts from 0 in it.
func restorableEnsemble(t *testing.T) *restorable {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	return restorableZK(t, z, func(ctx context.Context) error {
		if err := z.Backup(); err != nil {
			return err
		}
		return restart(ctx, z.Stop, z.Start)
	})
}

func restorableZK(
	t *testing.T, z *servers.ZooKeeper, backup func(context.Context) error,
) *restorable {
	return &restorable{
		url: "zk://" + z.Addr() + "/e2e", backup: backup, restore: z.Restore,
		connect: func() func(context.Context) (fence.Token, error) {
			admin := zookeepertest.Connect(t, z.Addr())
			return func(context.Context) (fence.Token, error) {
				stat, err := admin.Set("/e2e", nil, -1)
				if err != nil {
					return 0, err
				}
				return fence.Token(stat.Mzxid), nil
			}
		},
	}
}

// restorablePostgres has the same system identifier and timeline after a restore.
func restorablePostgres(t *testing.T) *restorable {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	return &restorable{
		url: pg.URL("postgres", "postgres"), backup: pg.Backup, restore: pg.Restore,
		connect: func() func(context.Context) (fence.Token, error) {
			admin, err := pgx.Connect(t.Context(), pg.URL("postgres", "postgres"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = admin.Close(context.WithoutCancel(t.Context())) })
			return func(ctx context.Context) (token fence.Token, err error) {
				err = admin.QueryRow(ctx, `select timeline_id::bigint << 32 |
				    nextval('ringfence_private.counter') from pg_control_checkpoint()`).Scan(&token)
				return token, err
			}
		},
	}
}

func (r *restorable) open(ctx context.Context) documents.Coordinator {
	r.t.Helper()
	co, err := coordinators.All.Open(ctx, settings.URL(r.url),
		coordinators.Options{SessionTimeout: longSession})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = co.Close() })
	return co
}

// win returns a term of orders and its coordinator.
func (r *restorable) win(ctx context.Context, holder string) (documents.Coordinator, *fence.Term) {
	r.t.Helper()
	co := r.open(ctx)
	return co, campaign(ctx, r.t, co, "orders", holder)
}

func campaign(
	ctx context.Context, t testing.TB, co fence.Elector, resource fence.Resource, holder string,
) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	term, err := co.Campaign(ctx, resource, holder)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// backUp makes a backup that has the issuer and an election in which nobody stands. Then it uses up
// numbers, so that the next ones are above the first ones after a restore.
func (r *restorable) backUp(ctx context.Context) {
	r.t.Helper()
	co, term := r.win(ctx, "before the backup")
	// Its session, too, is not in the backup: the end of one uses up a number.
	if err := term.Resign(ctx); err != nil {
		r.t.Fatal(err)
	}
	if err := co.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.backup(ctx); err != nil {
		r.t.Fatal(err)
	}
	const someSessions = 50 // Postgres skips 32 numbers after a crash
	count := r.connect()
	for range someSessions {
		if _, err := count(ctx); err != nil {
			r.t.Fatal(err)
		}
	}
}

// countTo uses up numbers, as other elections do, until n is next. It returns false if n is gone.
func (r *restorable) countTo(ctx context.Context, n fence.Token) bool {
	r.t.Helper()
	count := r.connect()
	for {
		at, err := count(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if at >= n-1 {
			return at == n-1
		}
	}
}

// namesake restores the coordinator, and returns a term of orders that has an earlier leader's
// number.
func (r *restorable) namesake(
	ctx context.Context, n fence.Token,
) (documents.Coordinator, *fence.Term) {
	r.t.Helper()
	for ctx.Err() == nil {
		if err := r.restore(ctx); err != nil {
			r.t.Fatal(err)
		}
		co := r.open(ctx)
		campaign(ctx, r.t, co, "others", "somebody") // so that its session is open
		if r.countTo(ctx, n) {
			if term := campaign(ctx, r.t, co, "orders", "namesake"); term.Token() == n {
				return co, term
			}
		}
		_ = co.Close() // another session ended or began meanwhile, and used up the number
	}
	r.t.Fatalf("nobody got %s", n)
	return nil, nil
}
