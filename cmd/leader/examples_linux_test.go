package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// Queries that return, for each merchant, the number of rows and their sum.
const (
	booked = `select
		coalesce(string_agg(merchant || '=' || n || '=' || amount, ' ' order by merchant), '') from
		(select merchant, count(*) as n, sum(amount) as amount from ledger group by merchant) as l`
	mailed = `select
		coalesce(string_agg(recipient || '=' || n || '=' || sent, ' ' order by recipient), '') from
		(select recipient, count(*) as n, count(sent_at) as sent from outbox group by recipient) as m`
)

func (s *taskStage) settlement() (file string) {
	s.t.Helper()
	s.SQL("do $$ begin create role app; exception when duplicate_object or unique_violation then " +
		"null; end $$")
	s.example("settlement")
	s.SQL(`insert into orders (merchant, amount, day)
		select 'm' || n % 3, n, '2026-11-20'::date + (n - 1) / 10 from generate_series(1, 30) as n`)
	s.set("DATE", "2026-11-21")
	spool := filepath.Join(s.dir, "spool")
	must.Succeed(s.t, os.Mkdir(spool, 0o755))
	s.set("SPOOL", spool)
	return filepath.Join(s.dir, "settlement.yaml")
}

// The first leader is killed in the middle of the booking transaction, the second after it has sent
// a mail and before it has recorded that. The third finishes the task.
func testSettlement(t *testing.T, program string) {
	s := newTaskStage(t, program, shortSession)
	s.guarded()
	file := s.settlement()
	s.write("slow.sh", `#!/bin/sh
./mail.sh "$@"
echo "$1" >>handed-over
while [ -e wait ]; do sleep 0.01; done`)
	s.write("wait", "")
	s.set("MAILER", "./slow.sh")
	release := s.Hold("ledger")

	first := s.start("task", file)
	first.log.Await(t, `"step":"book"`)
	s.Blocked("insert into ledger")
	second := s.start("task", file)
	first.kill()
	second.log.Await(t, "took over the task")
	release()
	s.has("handed-over", 1)

	third := s.start("task", file)
	second.kill()
	third.log.Await(t, "took over the task")
	s.has("handed-over", 2)
	must.Succeed(t, os.Remove(filepath.Join(s.dir, "wait")))
	third.exits(cli.Done)

	if got, want := s.Query(booked), "m0=1=63.00 m1=1=70.00 m2=1=77.00"; got != want {
		t.Errorf("booked: %s, want %s", got, want)
	}
	got, want := s.Query(mailed), "m0@example.com=1=1 m1@example.com=1=1 m2@example.com=1=1"
	if got != want {
		t.Errorf("mails: %s, want %s", got, want)
	}
	handed, _ := os.ReadFile(filepath.Join(s.dir, "handed-over"))
	lines := strings.Fields(strings.ReplaceAll(string(handed), " ", "_"))
	if len(lines) != 4 || lines[0] != lines[1] || lines[1] == lines[2] {
		t.Errorf("the mail service was called with %q; want the first mail twice with one key, the "+
			"others once", lines)
	}
	cp := s.show("settlement-2026-11-21")
	if cp.Status != checkpoint.Done || cp.Version != 5 || cp.Run != 1 ||
		!strings.Contains(string(cp.State), `"orders":20`) &&
			!strings.Contains(string(cp.State), `"orders": 20`) {
		t.Errorf("got %+v, state %s", cp, cp.State)
	}
	late := s.start("task", file) // the task is done already
	late.exits(cli.Done)
	if got := s.Query("select count(*)::text from ledger"); got != "3" {
		t.Errorf("%s rows in the ledger", got)
	}
}

// has waits until a file has this number of lines.
func (s *taskStage) has(name string, lines int) {
	s.t.Helper()
	leadertest.Eventually(s.t, name, func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, name))
		return strings.Count(string(text), "\n") == lines
	})
}

// The leader is killed in the middle of a load. The next one finishes the load and continues until
// it is told to stop.
func testETL(t *testing.T, program string) {
	s := newTaskStage(t, program, shortSession)
	s.example("etl")
	file := filepath.Join(s.dir, "etl.yaml")
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	s.write("etl.yaml", strings.NewReplacer("every: 10s", "every: 10ms", "batch: 500",
		"batch: 7").Replace(string(text)))
	s.SQL(`insert into events (happened, payload)
		select now() - interval '1 hour', jsonb_build_object('kind', 'k', 'amount', n) from generate_series(1, 100) as n`)

	first := s.start("task", file)
	leadertest.Eventually(t, "a few rounds", func() bool { return s.show("etl").Round > 4 })
	release := s.Hold("facts")
	s.Blocked("insert into facts")
	second := s.start("task", file)
	first.kill()
	second.log.Await(t, "took over the task")
	release()
	leadertest.Eventually(t, "everything is loaded", func() bool {
		return strings.Contains(string(s.show("etl").State), `"cursor":100,`)
	})
	idle := s.show("etl").Round
	leadertest.Eventually(t, "it continues for ever", func() bool {
		return s.show("etl").Round > idle+2
	})
	second.signal(syscall.SIGTERM)
	second.exits(128 + 15)
	got, want := s.Query("select count(*) || ' ' || count(distinct event) || ' ' || sum(amount) "+
		"from facts"), "100 100 5050"
	if got != want {
		t.Errorf("facts, distinct, sum: %s, want %s", got, want)
	}
	if cp := s.show("etl"); cp.Rounds != checkpoint.Forever || cp.Status != checkpoint.Running {
		t.Errorf("got %+v", cp)
	}
}
