package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// event is a line of a worker's output, as JSON.
type event struct {
	What     string      `json:"what"` // elected, read, paused, wrote, refused, error
	Token    fence.Token `json:"token,omitempty"`
	Database string      `json:"database,omitempty"`
	Balance  int         `json:"balance,omitempty"`
	Text     string      `json:"text,omitempty"`
}

func say(e event) { _ = json.NewEncoder(os.Stdout).Encode(e) }

// job is a leader that reads a balance, adds to it and writes it back, in two databases.
type job struct {
	name, coordinator, postgres, redis string
	add                                int
	fenced, pause                      bool
	session                            time.Duration

	paused bool // it has reached its pause
}

// work is a leader program as an application would write it, with an embedded election client.
func work(ctx context.Context, args []string) error {
	var j job
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.StringVar(&j.name, "name", "", "")
	flags.StringVar(&j.coordinator, "coordinator", "", "")
	flags.StringVar(&j.postgres, "postgres", "", "")
	flags.StringVar(&j.redis, "redis", "", "")
	flags.IntVar(&j.add, "add", 0, "")
	flags.BoolVar(&j.fenced, "fenced", false, "carry the token")
	flags.BoolVar(&j.pause, "pause", false, "stop between the check and the write")
	flags.DurationVar(&j.session, "session", time.Second, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	coordinator, err := zookeeper.Open(ctx, j.coordinator,
		zookeeper.Options{SessionTimeout: j.session})
	if err != nil {
		return err
	}
	defer coordinator.Close()
	lead := fence.Lead{Elector: coordinator, Resource: "orders", Holder: j.name}
	if j.fenced {
		lead.Stores = []fence.Raiser{
			pgmarks.NewRaiser(j.postgres), redismarks.NewRaiser("redis://" + j.redis),
		}
	}
	err = lead.Run(ctx, j.asLeader)
	// On a busy machine the term may be lost before the pause. Then it stands for election again.
	for j.pause && !j.paused && ctx.Err() == nil && errors.Is(err, fence.ErrLost) {
		err = lead.Run(ctx, j.asLeader)
	}
	if errors.Is(err, fence.ErrLost) {
		return nil // the scene is over, and the term is not needed any more
	}
	return err
}

// asLeader is the critical section.
func (j *job) asLeader(ctx context.Context, term *fence.Term) error {
	say(event{What: "elected", Token: term.Token()})
	pg, err := j.openPostgres(ctx, term)
	if err != nil {
		return err
	}
	defer pg.Close(context.WithoutCancel(ctx))
	rdb := redis.NewClient(j.redisOptions(term))
	defer rdb.Close()

	var balance int
	if err := pg.QueryRow(ctx, "select balance from account").Scan(&balance); err != nil {
		return err
	}
	if err := rdb.Get(ctx, "balance").Err(); err != nil {
		return err
	}
	say(event{What: "read", Balance: balance})
	balance += j.add

	if err := term.Wait(ctx); err != nil { // the check: do I still lead?
		return err
	}
	if j.pause {
		j.paused = true
		say(event{What: "paused", Balance: balance})
		// Here the stage stops this process, and wakes it later.
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			return err
		}
	}
	// The write. The check was long ago, and nothing in this process can know that.
	late := context.WithoutCancel(ctx)
	_, err = pg.Exec(late, "update account set balance = $1", balance)
	report("Postgres", balance, err)
	report("Redis", balance, rdb.Set(late, "balance", balance, 0).Err())
	if j.pause {
		fresh, err := j.openPostgres(late, term)
		if err == nil {
			_, err = fresh.Exec(late, "update account set balance = $1", balance)
			_ = fresh.Close(late)
		}
		report("Postgres, on a new connection", balance, err)
	}
	return nil
}

func report(database string, balance int, err error) {
	if err == nil {
		say(event{What: "wrote", Database: database, Balance: balance})
		return
	}
	say(event{What: "refused", Database: database, Text: explain(err)})
}

// explain returns the guard's error with its three parts on separate lines.
func explain(err error) string {
	var pg interface{ SQLState() string }
	var r *fence.Refusal
	switch err := pgmarks.Refused(err, fence.Claim{}); {
	case errors.As(err, &r):
		code := refusal.SQLState(r.Reason)
		return strings.Join([]string{code + " " + r.Message, r.Detail, r.Hint}, "\n")
	case errors.As(err, &pg):
		return pg.SQLState() + " " + err.Error()
	}
	return err.Error()
}

func (j job) openPostgres(ctx context.Context, term *fence.Term) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(j.postgres)
	if err != nil {
		return nil, err
	}
	if j.fenced {
		cfg.RuntimeParams["options"] = fmt.Sprintf("-c fence.orders=%s", term.Token())
	}
	return pgx.ConnectConfig(ctx, cfg)
}

func (j job) redisOptions(term *fence.Term) *redis.Options {
	o := &redis.Options{Addr: j.redis, MaxRetries: -1, PoolSize: 1, ReadTimeout: 20 * time.Second}
	if j.fenced {
		o.ClientName = fmt.Sprintf("fence.orders=%s", term.Token())
	}
	return o
}
