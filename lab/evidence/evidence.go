package evidence

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// recordSteps makes Postgres record every step of the fence, and which backend wrote an entry of
// the ledger.
//
//go:embed steps.sql
var recordSteps string

// recordPublished makes Postgres record every checkpoint that is ever stored, with its transaction.
const recordPublished = `
create table published (
	task text, version bigint, token bigint, checkpoint json,
	xid text default pg_current_xact_id()::text, backend text default lab_backend()
);
create function published() returns trigger language plpgsql security definer as $$ begin
	insert into public.published (task, version, token, checkpoint)
		values (new.task, new.version, new.token, new.checkpoint);
	return new;
end $$;
create trigger published after insert or update on ringfence_private.checkpoint
	for each row execute function published();
`

// Prepare prepares Postgres to keep evidence, and to have the seeded bug.
func Prepare(ctx context.Context, s scenario.Scenario, sys system.System) error {
	return system.Exec(ctx, sys.Addresses().Postgres,
		append([]string{recordSteps, recordPublished}, seedSchema(s)...)...)
}

// seedSchema returns what a seeded bug, or the path SQL, needs in Postgres.
func seedSchema(s scenario.Scenario) (sql []string) {
	if s.Topology.GuardFlaw != "" {
		sql = append(sql, flaw.Vouch)
	}
	if s.Topology.Route == scenario.SQL {
		sql = append(sql, system.SQLTables)
	}
	if s.Topology.DirectSessions {
		sql = append(sql, "select ringfence.direct('{app}')")
	}
	switch flaw.Name(s.Topology.SchemaFlaw) {
	case flaw.BelievedSetting:
		sql = append(sql, flaw.Trust)
	case flaw.BelievedCount:
		sql = append(sql, flaw.Count, flaw.Abandon)
	case flaw.DatabaseOrder:
		sql = append(sql, flaw.Unorder)
	case flaw.Abandoned:
		sql = append(sql, flaw.Abandon)
	}
	if s.Workload.Flaw == string(flaw.Unconditional) {
		sql = append(sql, flaw.Unlock)
	}
	return sql
}

// reader reads the evidence of one run.
type reader struct {
	scenario.Scenario
	sys system.System
	rec *record.Recorder
}

// Collect records what the databases hold.
func Collect(
	ctx context.Context, s scenario.Scenario, sys system.System, rec *record.Recorder,
) error {
	rec.Progress("reading what the databases hold")
	r := reader{s, sys, rec}
	return errors.Join(r.collectPostgres(ctx), r.collectRedis(ctx), r.collectMarks(ctx))
}

// postgres reads the evidence of one database.
type postgres struct {
	*pgx.Conn
	place map[string]int64 // of a transaction in the order of commits
}

func (r reader) collectPostgres(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, r.sys.Addresses().Postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	p := postgres{conn, map[string]int64{}}
	if _, err := conn.Exec(ctx, system.EndLog); err != nil {
		return err
	}
	// One snapshot for all: a late commit could otherwise be in a table but not in the log.
	if _, err := conn.Exec(ctx, "begin isolation level repeatable read"); err != nil {
		return err
	}
	if err := p.readLog(ctx); err != nil {
		return err
	}
	add := r.rec.Add
	return errors.Join(p.ledger(ctx, add), p.world(ctx, add), p.published(ctx, add), p.steps(ctx, add))
}

// readLog reads the order of commits from the server's log, which a standby that was promoted has,
// too. A sequence would give the order of inserts, and a counter in a row would make writers lock
// each other.
func (p postgres) readLog(ctx context.Context) error {
	rows, err := p.Query(ctx, "select xid from commits order by start_lsn")
	if err != nil {
		return err
	}
	commits, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for i, xid := range commits {
		p.place[xid] = int64(i) + 1
	}
	return err
}

func (p postgres) placeOf(xid, what string) (int64, error) {
	if n, ok := p.place[xid]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("%s: its transaction %s is not in the server's log", what, xid)
}

func (p postgres) ledger(ctx context.Context, add func(history.Event)) error {
	rows, err := p.Query(ctx,
		`select op, token, coalesce(carried, ''), xid, coalesce(key, ''), coalesce(resource, ''), coalesce(backend, '')
			from ledger`)
	if err != nil {
		return err
	}
	var op, carried, xid, key, resource, backend string
	var token int64
	into := []any{&op, &token, &carried, &xid, &key, &resource, &backend}
	_, err = pgx.ForEachRow(rows, into, func() error {
		e := history.Event{Kind: history.Evidence, Op: op, Store: "postgres"}
		if key != "" {
			e = history.Event{Kind: history.Effect, Key: key, Store: "postgres", Sync: true}
		}
		e.Token, e.Resource, e.Backend = fence.Token(token), fence.Resource(resource), backend
		var err error
		if e.Place, err = p.placeOf(xid, op); err != nil {
			return err
		}
		if carried != "" {
			if e.Carried, err = fence.ParseToken(carried); err != nil {
				return fmt.Errorf("%s: %w", op, err)
			}
		}
		add(e)
		return nil
	})
	return err
}

func (p postgres) world(ctx context.Context, add func(history.Event)) error {
	rows, err := p.Query(ctx, "select place, key, token from world order by place")
	if err != nil {
		return err
	}
	var place, token int64
	var key string
	_, err = pgx.ForEachRow(rows, []any{&place, &key, &token}, func() error {
		add(history.Event{
			Kind: history.Effect, Key: key, Store: "world", Token: fence.Token(token), Place: place,
		})
		return nil
	})
	return err
}

func (p postgres) published(ctx context.Context, add func(history.Event)) error {
	rows, err := p.Query(ctx, `select task, version, token, xid, (checkpoint->>'run')::bigint,
		(checkpoint->>'round')::bigint, (checkpoint->>'step')::int, backend from published`)
	if err != nil {
		return err
	}
	var e history.Event
	var token int64
	var xid string
	into := []any{&e.Task, &e.Version, &token, &xid, &e.Run, &e.Round, &e.Step, &e.Backend}
	_, err = pgx.ForEachRow(rows, into, func() error {
		found := e
		found.Kind, found.Store, found.Token = history.Publish, "postgres", fence.Token(token)
		var err error
		if found.Place, err = p.placeOf(xid, found.Task); err != nil {
			return err
		}
		add(found)
		return nil
	})
	return err
}

// steps reads the steps of the fence. Some commit asynchronously. Those that are not in the log yet
// come after everything that is, so nothing depends on them.
func (p postgres) steps(ctx context.Context, add func(history.Event)) error {
	rows, err := p.Query(ctx, "select what, resource, token, issuer, backend, not original, run, "+
		"xid from final_step order by id")
	if err != nil {
		return err
	}
	e := history.Event{Kind: history.Fence, Store: "postgres"}
	var token int64
	var xid string
	into := []any{&e.Do, &e.Resource, &token, &e.Issuer, &e.Backend, &e.Copied, &e.Start, &xid}
	_, err = pgx.ForEachRow(rows, into, func() error {
		step := e
		step.Token, step.Resource, step.Place = fence.Token(token), otherThanUsual(e.Resource),
			p.place[xid]
		if step.Place != 0 {
			add(step)
		}
		return nil
	})
	return err
}

// otherThanUsual returns the resource as an event names it.
func otherThanUsual(r fence.Resource) fence.Resource {
	if r == scenario.Resource {
		return ""
	}
	return r
}

func (r reader) collectRedis(ctx context.Context) error {
	return system.WithRedis(r.sys.Addresses().Redis, func(c *driver.Client) error {
		entries, err := c.LRange(ctx, "ledger", 0, -1).Result()
		if err != nil {
			return err
		}
		for i, entry := range entries {
			op, token, _ := strings.Cut(entry, " ")
			e := history.Event{Kind: history.Evidence, Op: op, Store: "redis", Place: int64(i) + 1}
			if token != "0" {
				if e.Token, err = fence.ParseToken(token); err != nil {
					return fmt.Errorf("redis holds %q: %w", entry, err)
				}
			}
			r.rec.Add(e)
		}
		return nil
	})
}

// collectMarks reads the marks with the guard program.
func (r reader) collectMarks(ctx context.Context) error {
	out, err := r.sys.Operator(ctx, "status", "-o", "json")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var stores []struct {
		Store string `json:"store"`
		Marks []struct {
			Resource fence.Resource `json:"resource"`
			Token    fence.Token    `json:"token"`
		} `json:"marks"`
	}
	if err := json.Unmarshal([]byte(out), &stores); err != nil {
		return fmt.Errorf("guard status -o json: %w", err)
	}
	for _, s := range stores {
		for _, m := range s.Marks {
			e := history.Event{
				Kind: history.Mark, Store: s.Store, Token: m.Token, Resource: otherThanUsual(m.Resource),
			}
			if m.Resource == scenario.Resource || r.Workload.Kind == scenario.Jobs {
				r.rec.Add(e)
			}
		}
	}
	return nil
}
