package worker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

func (s *stage) task(name string, rounds int64) Config {
	c := s.config(name)
	c.Kind, c.Rounds = scenario.Tasks, rounds
	return c
}

func (s *stage) column(query string) []string {
	s.t.Helper()
	rows, err := s.db.Query(s.ctx, query)
	s.must(err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	s.must(err)
	return all
}

// effects wants each step's effects as often as they must be there.
func (s *stage) effects(rounds int) {
	s.t.Helper()
	books := s.column("select key from ledger where key is not null order by key collate \"C\"")
	mails := s.column("select key from world group by key order by key collate \"C\"")
	var wantBooks, wantMails []string
	for round := range rounds {
		wantBooks = append(wantBooks, fmt.Sprintf("settlement/1/%d/book", round+1))
		wantMails = append(wantMails, fmt.Sprintf("settlement/1/%d/mail", round+1))
	}
	slices.Sort(wantBooks)
	slices.Sort(wantMails)
	if !slices.Equal(books, wantBooks) {
		s.t.Errorf("booked %v", books)
	}
	if !slices.Equal(mails, wantMails) {
		s.t.Errorf("mailed %v", mails)
	}
}

func (r *run) steps(o history.Outcome) []history.Event {
	return r.events(func(e history.Event) bool {
		return e.Kind == history.Return && e.Do == history.Step && e.Outcome == o
	})
}

func (r *run) ends(n int) {
	r.s.t.Helper()
	r.s.await("steps end", func() bool { return len(r.steps(history.OK)) >= n })
}

func TestATaskContinuesWithTheNextLeaderAndTheDeposedOneIsRefused(t *testing.T) {
	s := newStage(t)
	const rounds = 100
	slow := s.task("worker-1", rounds)
	slow.Pause = 10 * time.Millisecond
	a := s.start(slow)
	token := a.leads(1)
	a.ends(6)
	a.w.signals.stopInside() // so that it does not finish the task before it is deposed
	s.await("it is stopped inside", func() bool { return len(a.events(isInside)) == 1 })
	b := s.start(s.task("worker-2", rounds))
	s.stands(2)
	s.depose(token)
	a.w.signals.resume()
	s.await("late attempts are made", func() bool {
		return len(a.returns("postgres", history.Stale)) >= 2
	})
	if code := a.wait() + b.wait(); code != 0 {
		t.Errorf("exit codes add up to %d", code)
	}
	s.effects(rounds)
	s.judge(a, s.evidence())
	if n := len(a.steps(history.OK)) + len(b.steps(history.OK)); n < 2*rounds-1 {
		t.Errorf("%d steps were seen to end", n)
	}
	for _, r := range []*run{a, b} {
		open := map[string]bool{}
		for _, e := range r.events(func(e history.Event) bool { return e.Op != "" }) {
			if (e.Kind == history.Invoke) == open[e.Op] {
				t.Errorf("out of order: %+v", e)
			}
			open[e.Op] = e.Kind == history.Invoke
			if e.Do == history.Step && e.Kind == history.Invoke &&
				!strings.HasPrefix(e.Key, "settlement/1/") {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestATaskIsDoneEvenIfLeadersEndAtEveryPlace(t *testing.T) {
	s := newStage(t)
	const rounds = 6
	for step, name := range []string{"book", "mail"} {
		for _, place := range Places {
			c := s.task("worker-"+name+"-"+strings.ReplaceAll(place, " ", "-"), rounds)
			c.Failpoint = fmt.Sprintf("%s:%d", place, 1)
			saved := s.column("select checkpoint->>'step' from ringfence_private.checkpoint")
			if len(saved) == 1 && saved[0] != fmt.Sprint(step) {
				c.Failpoint = fmt.Sprintf("%s:%d", place, 2) // the other step comes first
			}
			r := s.process(c)
			if code := r.wait(); code != ExitKilled {
				t.Fatalf("%s: exit code %d", c.Failpoint, code)
			}
			s.removeCandidates()
			notes := r.events(func(e history.Event) bool {
				return e.Kind == history.Note && e.Text == history.Failpoint+place
			})
			if len(notes) != 1 {
				t.Errorf("%s: %+v", c.Failpoint, r.all)
			}
		}
	}
	r := s.start(s.task("worker-1", rounds))
	if code := r.wait(); code != ExitDone {
		t.Errorf("exit code %d", code)
	}
	s.effects(rounds)
	if n := len(s.column("select key from world")); n <= rounds {
		t.Errorf("%d mails: none was sent twice, so no leader ended between effect and publish", n)
	}
}

func TestAnUnconditionalPublishMakesTheCheckpointGoBack(t *testing.T) {
	s := newStage(t)
	s.must(system.Exec(s.ctx, s.superuser(), `create table published (version bigint, xid text default pg_current_xact_id()::text);
		create function published() returns trigger language plpgsql security definer as $$ begin
			insert into public.published (version) values (new.version); return new; end $$;
		create trigger published after insert or update on ringfence_private.checkpoint
			for each row execute function published()`))
	one, two := s.task("worker-1", 2000), s.task("worker-2", 2000)
	one.Flaw = flaw.Unconditional
	a := s.start(one)
	token := a.leads(1)
	a.ends(6)
	b := s.start(two)
	s.stands(2)
	s.depose(token)
	s.await("it publishes late", func() bool { return len(a.returns("postgres", history.OK)) == 1 })
	a.stop()
	b.stop()
	s.must(system.Exec(s.ctx, s.superuser(), system.EndLog))
	rows := s.column("select version::text from published join commits using (xid) order by start_lsn")
	last, back := int64(0), false
	for _, row := range rows {
		version, err := strconv.ParseInt(row, 10, 64)
		s.must(err)
		back = back || version <= last
		last = version
	}
	if !back {
		t.Errorf("%d publishes, and none goes back", len(rows))
	}
}
