package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// postgresEvents are what happens to the primary. The writers go on for some time after it.
var postgresEvents = []struct {
	name  string
	start func(ctx context.Context, p *servers.Patroni, primary *servers.PatroniNode) error
	after time.Duration
}{
	{"Patroni, switchover", switchover, 25 * time.Second},
	{"Patroni, postmaster killed", killPostmaster, 25 * time.Second},
	{"Patroni, node killed", killNode, time.Minute},
	{"Patroni, killed without Postgres", killPatroni, time.Minute},
	{"Patroni, node frozen for 45 s", freeze, 30 * time.Second},
}

func switchover(ctx context.Context, p *servers.Patroni, primary *servers.PatroniNode) error {
	for _, to := range p.Nodes {
		if to != primary {
			return p.Switchover(ctx, primary, to)
		}
	}
	return nil
}

func killPostmaster(_ context.Context, _ *servers.Patroni, primary *servers.PatroniNode) error {
	return primary.KillPostmaster()
}

func killNode(_ context.Context, _ *servers.Patroni, primary *servers.PatroniNode) error {
	return primary.Kill()
}

func killPatroni(_ context.Context, _ *servers.Patroni, primary *servers.PatroniNode) error {
	return primary.KillPatroni()
}

func freeze(ctx context.Context, _ *servers.Patroni, primary *servers.PatroniNode) error {
	if err := primary.Pause(); err != nil {
		return err
	}
	return errors.Join(wait(ctx, 45*time.Second), primary.Resume())
}

// postgres measures failovers by Patroni.
func (s *settings) postgres(ctx context.Context, r *report.Report, progress io.Writer) error {
	r.Note("Patroni has its default settings: a primary that is silent is replaced after 30 s.")
	for _, event := range postgresEvents {
		if !s.Wants(event.name) {
			continue
		}
		to := newRows(r, event.name)
		for round := range s.Rounds {
			to.say(progress, round)
			err := s.withPatroni(ctx, func(p *patroni) error {
				err := during(ctx, p.writers(), func() error {
					return event.start(ctx, p.Patroni, p.primary)
				}, event.after)
				if err != nil {
					return err
				}
				return p.count(ctx, to)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", event.name, err)
			}
		}
	}
	return nil
}

// patroni is a cluster with the ways to reach it.
type patroni struct {
	*servers.Patroni
	primary *servers.PatroniNode
	elects  *etcd.Coordinator // in Patroni's own etcd
	ways    []*pgWay
	closing []func() error
}

// pgWay is one way. Its leader has a table of its own.
type pgWay struct {
	name, table   string
	term          fence.Token // of the leader
	leader, older *writer     // older is nil without a guard
}

const user = "postgres"

func (s *settings) withPatroni(ctx context.Context, use func(*patroni) error) (err error) {
	p := &patroni{}
	defer func() {
		for i := len(p.closing) - 1; i >= 0; i-- {
			err = errors.Join(err, p.closing[i]())
		}
	}()
	if p.Patroni, err = servers.StartPatroni(ctx, 3, servers.PatroniOptions{}); err != nil {
		return err
	}
	p.closing = append(p.closing, p.Patroni.Close)
	if p.elects, err = etcd.Open(ctx, p.coordinator(), etcd.Options{}); err != nil {
		return err
	}
	p.closing = append(p.closing, p.elects.Close)
	if p.primary, err = p.Primary(ctx); err != nil {
		return err
	}
	if err := pgmarks.Install(ctx, p.primary.URL(user, user), user); err != nil {
		return err
	}
	if err := p.reach(ctx, s.Guard); err != nil {
		return err
	}
	return use(p)
}

func (p *patroni) coordinator() string { return "etcd://" + p.Etcd.Addr() + "/bench" }

func url(hosts string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, hosts, user)
}

// reach starts what stands before the nodes.
func (p *patroni) reach(ctx context.Context, program string) error {
	free, err := servers.FreePorts(3)
	if err != nil {
		return err
	}
	var ports [3]string
	for i, port := range free {
		ports[i] = strconv.Itoa(port)
	}
	_, api, _ := net.SplitHostPort(p.Nodes[0].API())
	isPrimary := servers.HAProxyCheck{Method: "OPTIONS", Path: "/primary", Port: api}
	isReady := servers.HAProxyCheck{Method: "GET", Path: "/readyz", Port: ports[0]}
	alone := servers.HAProxyOptions{
		Checks: []servers.HAProxyCheck{isPrimary}, Every: "inter 3s fall 3 rise 2",
	}
	quick := servers.HAProxyOptions{
		Checks: []servers.HAProxyCheck{isPrimary}, Every: "inter 1s fall 3 rise 1",
	}
	beside := servers.HAProxyOptions{
		Checks: []servers.HAProxyCheck{isPrimary, isReady}, Every: quick.Every,
	}
	for _, n := range p.Nodes {
		g, err := p.guard(ctx, ways.GuardOptions{
			Program: program, Postgres: url(n.Addr()), Host: n.Host, Ports: ports, Waits: true,
		})
		if err != nil {
			return err
		}
		alone.Servers = append(alone.Servers, n.Addr())
		beside.Servers = append(beside.Servers, g.Postgres)
	}
	balancer, err := p.haproxy(ctx, alone)
	if err != nil {
		return err
	}
	quick.Servers = alone.Servers
	quicker, err := p.haproxy(ctx, quick)
	if err != nil {
		return err
	}
	besideEach, err := p.haproxy(ctx, beside)
	if err != nil {
		return err
	}
	before, err := p.guard(ctx, ways.GuardOptions{Program: program, Postgres: url(balancer)})
	if err != nil {
		return err
	}
	following, err := p.guard(ctx, ways.GuardOptions{
		Program: program, Postgres: url(strings.Join(alone.Servers, ",")),
	})
	if err != nil {
		return err
	}
	for _, w := range []struct {
		name, addr string
		guarded    bool
	}{
		{"HAProxy, as Patroni's manual has it", balancer, false},
		{"HAProxy that checks each second", quicker, false},
		{"HAProxy, a guard beside each node", besideEach, true},
		{"a guard of three hosts", following.Postgres, true},
		{"a guard, HAProxy of the manual", before.Postgres, true},
	} {
		if err := p.add(ctx, w.name, w.addr, w.guarded); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (p *patroni) haproxy(ctx context.Context, o servers.HAProxyOptions) (addr string, err error) {
	h, err := servers.StartHAProxy(ctx, "", o)
	if err != nil {
		return "", err
	}
	p.closing = append(p.closing, h.Close)
	return h.Addr(), nil
}

func (p *patroni) guard(ctx context.Context, o ways.GuardOptions) (*ways.GuardProcess, error) {
	o.Settings = map[string]string{"GUARD_COORDINATOR": p.coordinator()}
	g, err := ways.StartGuard(ctx, o)
	if err == nil {
		p.closing = append(p.closing, g.Close)
	}
	return g, err
}

// add adds a way. Before a guard an older leader has had its turn.
func (p *patroni) add(ctx context.Context, name, addr string, guarded bool) error {
	w := &pgWay{name: name, table: fmt.Sprintf("way%d", len(p.ways))}
	p.ways = append(p.ways, w)
	err := p.exec(ctx, "create table "+w.table+" (place bigserial, n int, token bigint)")
	if err != nil {
		return err
	}
	if !guarded {
		w.leader = w.writer(addr, 0)
		return nil
	}
	before, err := p.elects.Campaign(ctx, fence.Resource(w.table), "older")
	if err != nil {
		return err
	}
	w.older = w.writer(addr, before.Token())
	w.older.older = true
	deadline := time.Now().Add(time.Minute) // HAProxy has to find the primary
	for err = w.older.try(ctx, -1); err != nil && time.Now().Before(deadline); {
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		err = w.older.try(ctx, -1)
	}
	if err = errors.Join(err, before.Resign(ctx)); err != nil {
		return err
	}
	term, err := p.elects.Campaign(ctx, fence.Resource(w.table), "leader")
	if err != nil {
		return err
	}
	w.term = term.Token()
	w.leader = w.writer(addr, w.term)
	return nil
}

// writer writes under a token, or under none if that is 0.
func (w *pgWay) writer(addr string, token fence.Token) *writer {
	s := &pgSession{
		url:    url(addr),
		insert: fmt.Sprintf("insert into %s (n, token) values ($1, %d)", w.table, token),
	}
	if token != 0 {
		s.options = fmt.Sprintf("-c fence.%s=%d", w.table, token)
	}
	return &writer{way: w.name, pause: 20 * time.Millisecond, one: s.write}
}

// pgSession writes on one connection until that fails.
type pgSession struct {
	url, options, insert string
	conn                 *pgx.Conn
}

func (s *pgSession) write(ctx context.Context, n int) (err error) {
	if s.conn == nil {
		cfg, err := pgx.ParseConfig(s.url)
		if err != nil {
			return err
		}
		if s.options != "" {
			cfg.RuntimeParams["options"] = s.options
		}
		if s.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
			s.conn = nil
			return err
		}
	}
	_, err = s.conn.Exec(ctx, s.insert, n)
	if err != nil {
		_ = s.conn.Close(ctx)
		s.conn = nil
	}
	return err
}

func (p *patroni) writers() (all []*writer) {
	for _, w := range p.ways {
		all = append(all, w.leader)
		if w.older != nil {
			all = append(all, w.older)
		}
	}
	return all
}

// count compares what the leaders were told with what the primary has.
func (p *patroni) count(ctx context.Context, to *rows) error {
	now, err := p.Primary(ctx)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, now.URL(user, user))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, w := range p.ways {
		rows, _ := conn.Query(ctx,
			fmt.Sprintf("select n::text from %s where token = %d", w.table, w.term))
		kept, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		to.add(w.name, w.leader.outage, w.leader.missing(kept))
		if w.older == nil {
			continue
		}
		var stale int
		err = conn.QueryRow(ctx, fmt.Sprintf(`select count(*) from %[1]s where token < %[2]d and
		    place > (select min(place) from %[1]s where token = %[2]d)`, w.table, w.term)).Scan(&stale)
		if err != nil {
			return err
		}
		to.stale.Add(w.name, float64(stale))
	}
	return nil
}

func (p *patroni) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.primary.URL(user, user))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
