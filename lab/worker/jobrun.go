package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/traffic"
	"github.com/ringfence/ringfence/store/pgstore"
)

// jobRun is one call of the handler. It has the job's effects in Postgres, one transaction for each
// step, on connections that outlive the term: fencing exists because of such workers.
type jobRun struct {
	*jobs.Run
	b     *jobWorker
	lane  string
	pool  *pgxpool.Pool
	round int  // of a job that repeats, from 1
	steps int  // that a round has
	done  int  // of them
	tried bool // one of them
	late  int  // writes since the job was lost
	no    int  // refusals since
}

// errAsTold is the failure of a try that has to fail.
var errAsTold = errors.New("this try fails, as the job demands")

// handle is the handler of the lab's jobs.
func (b *jobWorker) handle(ctx context.Context, r *jobs.Run) (any, error) {
	lane, free := b.takeLane()
	defer free()
	j := &jobRun{Run: r, b: b, lane: fmt.Sprintf("%s/job %d", b.w.c.Name, lane)}
	open, closeSockets := context.WithCancel(context.Background())
	defer closeSockets()
	if err := j.open(open); err != nil {
		return nil, err
	}
	defer func() { closeSockets(); j.pool.Close() }()
	b.term(history.Ready, r.Term.Claim(), r.ID, "")
	stop := context.AfterFunc(r.Term.Context(), func() {
		b.term(history.Lost, r.Term.Claim(), r.ID, lost(r.Term))
	})
	defer func() { stop(); b.term(history.Left, r.Term.Claim(), r.ID, "") }()

	var payload traffic.JobPayload
	if err := r.Decode(&payload); err != nil {
		return nil, err
	}
	j.round, j.steps = b.round(r.ID), payload.Steps
	for j.done < j.steps {
		if err := j.step(ctx); err != nil {
			j.beyond(ctx)
			return nil, err
		}
		if r.Failure < payload.Fails {
			return nil, errAsTold
		}
	}
	if ctx.Err() != nil {
		j.beyond(ctx)
		return nil, context.Cause(ctx)
	}
	return map[string]int{"steps": payload.Steps, "attempt": r.Attempt}, nil
}

// round returns the round of a job that this process has started.
func (b *jobWorker) round(id job.ID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[id].Rounds + 1
}

// open makes the pool of one connection, which carries the token if the route demands it.
func (j *jobRun) open(open context.Context) error {
	cfg, err := j.b.w.poolConfig("LAB_POSTGRES", j.b.w.c.Postgres, open)
	if err != nil {
		return err
	}
	cfg.MaxConns = 1
	if j.b.w.c.Route == scenario.Guarded {
		params := cfg.ConnConfig.RuntimeParams
		params["options"] = pgstore.AppendOptions(params["options"], j.Term.Claim())
	}
	j.pool, err = pgxpool.NewWithConfig(context.Background(), cfg)
	return err
}

// step tries the next step until it is done, or ctx ends or the token is refused.
func (j *jobRun) step(ctx context.Context) error {
	for ctx.Err() == nil {
		r := j.attempt(ctx)
		switch r.outcome {
		case history.OK:
			return nil
		case history.Stale:
			j.Term.Supersede(r.err)
			return r.err
		}
		pause(ctx, 20*time.Millisecond)
	}
	return context.Cause(ctx)
}

// beyond is what a reckless worker does whose job is not its own any more: it goes on with the
// steps, and with the last one again and again, until it is refused, and publishes its result.
//
// If its writes are accepted to the end, the coordinator may still call the job its own and accept
// the result. So it publishes nothing then unless each step is done.
func (j *jobRun) beyond(ctx context.Context) {
	over := errors.Is(context.Cause(ctx), jobs.ErrTakenBack) || j.Term.State() == fence.Lost
	if !over || j.b.w.c.Manners == scenario.Good || !j.tried {
		return
	}
	end := time.Now().Add(maxLate)
	if j.b.w.c.Route == scenario.Direct {
		end = time.Now().Add(lateDirect)
	}
	for j.no < refusals && j.late < lateWrites && time.Now().Before(end) {
		if r := j.attempt(ctx); r.outcome == history.Stale {
			j.no++
		}
		j.late++
		pause(context.WithoutCancel(ctx), 10*time.Millisecond)
	}
	if j.no > 0 || j.done == j.steps {
		j.publishLate()
	}
}

// attempt does and records one transaction for the next step, or for the last one if all are done,
// also if ctx ends meanwhile.
func (j *jobRun) attempt(ctx context.Context) result {
	ctx = context.WithoutCancel(ctx)
	j.tried = true
	key := fmt.Sprintf("%s/1/%d/step-%d", j.ID, j.round, min(j.done+1, j.steps))
	r := j.b.w.record(history.Event{
		Process: j.lane, Op: j.b.w.op("s"), Do: history.Step, Store: "postgres", Sync: true,
		Token: j.Term.Token(), Resource: j.Term.Claim().Resource, Key: key, Attempt: j.Attempt,
	}, func(op string) result { return j.transact(ctx, op, key) })
	if r.outcome == history.OK {
		j.done = min(j.done+1, j.steps)
	}
	return r
}

// transact adds an entry to the ledger, and the effect of the step if it is not there yet. Nothing
// but the fence keeps two workers from finding it missing.
func (j *jobRun) transact(ctx context.Context, op, key string) result {
	w, claim := j.b.w, j.Term.Claim()
	within, cancel := context.WithTimeout(ctx, w.c.Deadline)
	defer cancel()
	tx, err := j.pool.Begin(within)
	if err != nil {
		return beforeCommit(err, claim)
	}
	defer rollBack(ctx, tx)
	const insert = `insert into ledger (op, token, key, resource, carried)
		values ($1, $2, $3, $4, current_setting('fence.' || $4, true))`
	var key0 *string
	_, err = tx.Exec(within, insert, op, int64(claim.Token), key0, string(claim.Resource))
	if err != nil {
		return beforeCommit(err, claim)
	}
	var done bool
	err = tx.QueryRow(within, "select exists (select from ledger where key = $1)", key).Scan(&done)
	if err != nil {
		return beforeCommit(err, claim)
	}
	pause(within, w.c.Pause)
	if w.signals.stopRequested() {
		w.waitInside(ctx)
		within, cancel = context.WithTimeout(ctx, w.c.Deadline) // the stop does not count
		defer cancel()
	}
	if !done {
		_, err = tx.Exec(within, insert, op+".effect", int64(claim.Token), &key, string(claim.Resource))
		if err != nil {
			return beforeCommit(err, claim)
		}
	}
	return committed(tx.Commit(within))
}

// publishLate publishes the job as done, after somebody else has got it. The change is the one that
// this worker would have made; with the flaw it does not look at whose attempt it is.
func (j *jobRun) publishLate() {
	ctx, cancel := context.WithTimeout(context.Background(), raiseTime)
	defer cancel()
	j.b.mu.Lock()
	was, ok := j.b.running[j.ID]
	j.b.mu.Unlock()
	if !ok || was.Attempt != j.Attempt || was.Token != j.Term.Token() {
		return
	}
	path := traffic.JobFolder("statuses") + string(j.ID)
	if j.b.w.c.Flaw == flaw.AnyAttempt {
		j.publishAnyway(ctx, path)
		return
	}
	s := was.Status
	s.State, s.Ended, s.Expires = job.Done, time.Now(), time.Now().Add(time.Hour)
	j.b.publish(ctx, documents.Change{
		While: []fence.Claim{j.Term.Claim()},
		Writes: []documents.Write{
			documents.Replace(documents.Document{Path: path, Version: was.version}, encode(s)),
			documents.DeleteAny(fmt.Sprintf("%s%s/%s.%d",
				traffic.JobFolder("assigned"), s.Worker, s.ID, s.Attempt)),
		},
	})
}

// publishAnyway is the flaw.
func (j *jobRun) publishAnyway(ctx context.Context, path string) {
	for ctx.Err() == nil {
		docs, err := j.b.docs.Get(ctx, documents.At(path))
		if err != nil {
			return
		}
		var s job.Status
		if json.Unmarshal(docs[0].Data, &s) != nil || s.State.Finished() {
			return
		}
		if s.Attempt > j.Attempt && s.State == job.Running {
			s.State, s.Attempt = job.Done, j.Attempt
			j.b.publish(ctx, documents.Change{
				Writes: []documents.Write{documents.Replace(docs[0], encode(s))},
			})
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// publish makes a change of this process, recorded.
func (b *jobWorker) publish(ctx context.Context, c documents.Change) {
	_, err := b.change(c, func() ([]int64, error) { return b.docs.Change(ctx, c) })
	b.w.note("a late result was published with: %v", err)
}

func encode(s job.Status) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // its parts came from JSON
	}
	return b
}
