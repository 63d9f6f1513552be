package endtoend

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
)

// attempt is the result of finishing one thing that the victim had left open.
type attempt struct{ What, Error string }

// victim is a leader that leaves something of every kind open, is paused by the test, and then
// continues. It prints its token, waits for a line on stdin, and prints its attempts.
func victim() int {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	err := runVictim(ctx, os.Getenv("RINGFENCE_VICTIM"), os.Getenv("VICTIM_PG"),
		os.Getenv("VICTIM_REDIS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		return 1
	}
	return 0
}

func runVictim(ctx context.Context, coordinator, pgAddress, redisAddress string) error {
	co, err := zookeeper.Open(ctx, coordinator, zookeeper.Options{SessionTimeout: shortSession})
	if err != nil {
		return err
	}
	defer co.Close()
	term, err := co.Campaign(ctx, "orders", "victim")
	if err != nil {
		return err
	}
	token := term.Token()
	v := &leftovers{ctx: ctx, token: token, pg: pgAddress, redis: redisAddress}
	finish, err := v.leave()
	if err != nil {
		return err
	}
	fmt.Println(token)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(finish())
}

// leftovers opens things and finishes them later.
type leftovers struct {
	ctx       context.Context
	token     fence.Token
	pg, redis string
	finish    []func() attempt
}

func (l *leftovers) later(what string, f func() error) {
	l.finish = append(l.finish, func() attempt { return attempt{what, fmt.Sprint(f())} })
}

// running starts something now and waits for its result later.
func (l *leftovers) running(what string, f func() error) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	l.later(what, func() error { return <-result })
}

func (l *leftovers) conn() (*pgx.Conn, error) { return pgx.Connect(l.ctx, pgURL(l.pg, l.token)) }

const insert = "insert into ledger (token, note) values ($1, $2)"

func (l *leftovers) leave() (func() []attempt, error) {
	var conns []*pgx.Conn
	for range 5 {
		c, err := l.conn()
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	idle, open, busy, copying, locked := conns[0], conns[1], conns[2], conns[3], conns[4]
	if _, err := idle.Exec(l.ctx, insert, l.token, "before the pause"); err != nil {
		return nil, err
	}
	l.later("open idle connection", func() error {
		_, err := idle.Exec(l.ctx, insert, l.token, "late")
		return err
	})
	for _, statement := range []string{
		"begin", "insert into ledger (token, note) values (1, 'late')",
	} {
		if _, err := open.Exec(l.ctx, statement); err != nil {
			return nil, err
		}
	}
	l.later("open transaction", func() error { _, err := open.Exec(l.ctx, "commit"); return err })
	for _, statement := range []string{"begin", "lock table spare in access exclusive mode"} {
		if _, err := locked.Exec(l.ctx, statement); err != nil {
			return nil, err
		}
	}
	l.later("transaction that holds a lock", func() error {
		_, err := locked.Exec(l.ctx, "commit")
		return err
	})
	l.running("running statement", func() error {
		_, err := busy.Exec(l.ctx, "insert into ledger (token, note) select 1, 'late' from pg_sleep(100)")
		return err
	})
	rows, more := io.Pipe()
	l.running("COPY", func() error {
		_, err := copying.PgConn().CopyFrom(l.ctx, rows, "copy ledger (note) from stdin")
		_ = rows.CloseWithError(err)
		return err
	})
	if _, err := more.Write([]byte("late\n")); err != nil {
		return nil, err
	}
	l.later("the end of the COPY", func() error {
		_, err := more.Write([]byte("late\n"))
		more.Close()
		return err
	})
	l.later("new connection", func() error { _, err := l.conn(); return err })
	return l.all, l.leaveRedis()
}

func (l *leftovers) leaveRedis() error {
	var clients []*redis.Client
	for range 5 {
		c := redisClient(l.redis, l.token)
		if err := c.RPush(l.ctx, "ledger", "before the pause").Err(); err != nil {
			return err
		}
		clients = append(clients, c)
	}
	idle, pipe, multi, script, pop := clients[0], clients[1], clients[2], clients[3], clients[4]
	conn := multi.Conn()
	for _, command := range [][]any{{"MULTI"}, {"RPUSH", "ledger", "late"}} {
		if err := conn.Do(l.ctx, command...).Err(); err != nil {
			return err
		}
	}
	l.later("MULTI", func() error { return conn.Do(l.ctx, "EXEC").Err() })
	l.later("Redis idle connection", func() error { return idle.RPush(l.ctx, "ledger", "late").Err() })
	l.later("Redis pipeline", func() error {
		_, err := pipe.Pipelined(l.ctx, func(p redis.Pipeliner) error {
			p.RPush(l.ctx, "ledger", "late")
			p.RPush(l.ctx, "ledger", "late")
			return nil
		})
		return err
	})
	l.later("script", func() error {
		return script.Eval(l.ctx, "return redis.call('RPUSH', KEYS[1], 'late')", []string{"ledger"}).Err()
	})
	l.running("BLPOP", func() error { return pop.BLPop(l.ctx, 0, "queue").Err() })
	l.later("new Redis connection", func() error {
		c := redisClient(l.redis, l.token)
		defer c.Close()
		return c.RPush(l.ctx, "ledger", "late").Err()
	})
	return nil
}

func (l *leftovers) all() []attempt {
	var all []attempt
	for _, f := range l.finish {
		all = append(all, f())
	}
	return all
}
