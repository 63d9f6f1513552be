package inject

import (
	"context"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	queueLength = 20  // sessions that queue for a lock
	crowdSize   = 300 // connections of a crowd, a third of each kind
	comeBack    = 50 * time.Millisecond
	crowdDial   = 5 * time.Second
)

// hold runs functions in the background, each again when it returns, until release is called.
func (r *Injector) hold(f scenario.Fault, all ...func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, do := range all {
		group.Go(func() {
			for ctx.Err() == nil {
				do(ctx)
				_ = system.Sleep(ctx, comeBack)
			}
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[f.Do] = func() { stop(); group.Wait() }
}

// release ends what hold began, if anything.
func (r *Injector) release(f scenario.Fault) {
	r.mu.Lock()
	stop := r.held[f.Do]
	delete(r.held, f.Do)
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// obstruct begins what any role can do to delay the next raise: a transaction that has attached and
// stays open, and sessions that queue for a lock that identifies entered transactions.
func (r *Injector) obstruct(ctx context.Context, f scenario.Fault) error {
	var number int
	sql := "select coalesce(max(ringfence.number(pass)), 0) from ringfence_private.gate where " +
		"resource = '" + scenario.Resource + "'"
	err := r.queryRow(ctx, sql, &number)
	if err != nil {
		return err
	}
	var c fence.Claim
	r.rec.Look(func(s *record.Seen) { c = s.Term() })
	all := []func(context.Context){func(ctx context.Context) {
		r.stayOpen(ctx, "select ringfence.attach(pg_backend_pid(), $1, $2, $3)",
			scenario.Resource, int64(c.Token), string(c.Issuer))
	}}
	for range queueLength {
		all = append(all, func(ctx context.Context) {
			r.stayOpen(ctx, "select pg_advisory_xact_lock($1, hashtext($2))", number, scenario.Resource)
		})
	}
	r.hold(f, all...)
	return nil
}

// stayOpen runs a query in a transaction, and leaves it open until ctx or the session ends.
func (r *Injector) stayOpen(ctx context.Context, sql string, args ...any) {
	conn, err := pgx.Connect(ctx, r.sys.Addresses().App)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "begin"); err != nil {
		return
	}
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		return
	}
	_, _ = conn.WaitForNotification(ctx) // there will be none
}

// lockLedger locks the ledger in a session of the leader, which then does nothing.
func (r *Injector) lockLedger(ctx context.Context, f scenario.Fault) error {
	var c fence.Claim
	r.rec.Look(func(s *record.Seen) { c = s.Term() })
	conn, err := r.connectUnder(ctx, f.On, c)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.held[f.Do] = func() { _ = conn.PgConn().Conn().Close() }
	r.mu.Unlock()
	const lock = "begin; lock table ledger in exclusive mode"
	_, err = conn.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol)
	return err
}

// connectUnder connects to Postgres through a guard, under a claim. Without guards it connects
// directly.
func (r *Injector) connectUnder(
	ctx context.Context, guard string, c fence.Claim,
) (*pgx.Conn, error) {
	to := r.sys.Addresses().Guards[guard].Postgres
	if r.Unguarded {
		to = r.sys.Addresses().App
	}
	o, err := pgx.ParseConfig(to)
	if err != nil {
		return nil, err
	}
	if !r.Unguarded {
		o.RuntimeParams["options"] = refusal.StartupOption("", c)
	}
	return pgx.ConnectConfig(ctx, o)
}

// What the clients of a crowd send before they stall.
var (
	// a startup message that promises more
	halfAStartup = []byte{0, 0, 0, 80, 0, 3}
	negotiation  = []byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f} // SSLRequest
	ping         = []byte("*1\r\n$4\r\nPING\r\n")             // Redis, without a token
)

// crowd begins to use up a guard's limits, with logins to Postgres that never end and with clients
// of Redis without a token.
func (r *Injector) crowd(f scenario.Fault) error {
	at := r.sys.Addresses().Guards[f.On]
	postgres, err := url.Parse(at.Postgres)
	if err != nil {
		return err
	}
	redis, err := url.Parse(at.Redis)
	if err != nil {
		return err
	}
	var all []func(context.Context)
	for range crowdSize / 3 {
		for _, one := range []struct {
			address string
			sends   []byte
		}{{postgres.Host, halfAStartup}, {postgres.Host, negotiation}, {redis.Host, ping}} {
			all = append(all, func(ctx context.Context) { linger(ctx, one.address, one.sends) })
		}
	}
	r.hold(f, all...)
	return nil
}

// linger connects, sends something, and stays until the other side or ctx ends it.
func linger(ctx context.Context, address string, sends []byte) {
	dialer := net.Dialer{Timeout: crowdDial}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	if _, err := conn.Write(sends); err != nil {
		return
	}
	for buf := make([]byte, 512); err == nil; {
		_, err = conn.Read(buf)
	}
}
