package sqlterms

import (
	"sync"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

// minute is how docs/sql.md numbers the runs of a job.
const minute = "extract(epoch from date_trunc('minute', now()))::bigint / 60"

// Several hosts start a job in each minute, and take it with the minute's number.
func TestAScheduledJobRunsOnOneOfItsHosts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin := s.connect("postgres")
	var now int64
	must.Succeed(t, admin.QueryRow(s.ctx, "select "+minute).Scan(&now))
	first, refused := s.startJob(now, "host-1", "host-2")
	s.fails(refused, "RF001")
	next, refused := s.startJob(now+1, "host-1", "host-2")
	s.fails(refused, "RF001")
	if err := s.writes(s.connect("app"), first.Pass); err == nil {
		t.Error("the run of the minute before writes")
	}

	const state = `select concat((select string_agg(e::text, ' ') from ringfence_private.election e), (select string_agg(m::text, ' ') from ringfence_private.mark m),
		(select string_agg(c::text, ' ') from ringfence_private.candidate c))`
	var before, after string
	must.Succeed(t, admin.QueryRow(s.ctx, state).Scan(&before))
	for _, host := range []string{"host-1", "host-2", "host-3"} {
		_, err := s.call(s.connect("app"), "take('nightly', $1, $2)", host, now)
		s.fails(err, "RF001")
	}
	if err := admin.QueryRow(s.ctx, state).Scan(&after); err != nil || after != before {
		t.Errorf("a late host changed %s to %s, %v", before, after, err)
	}
	if err := s.writes(s.connect("app"), next.Pass); err != nil {
		t.Errorf("the run of this minute: %v", err)
	}
}

// startJob has two hosts take the job at once. It returns the winner's term, and the error of the
// other one.
func (s *stage) startJob(number int64, hosts ...string) (won term, refused error) {
	s.Helper()
	var calls sync.WaitGroup
	errs := make([]error, len(hosts))
	for i, host := range hosts {
		c := s.connect("app")
		calls.Go(func() { _, errs[i] = s.call(c, "take('nightly', $1, $2)", host, number) })
	}
	calls.Wait()
	for i, host := range hosts {
		if errs[i] == nil {
			if won.Pass != nil {
				s.Fatalf("%s wins minute %d, too", host, number)
			}
			won = s.ready(s.connect("app"), "take('nightly', $1, $2)", host, number)
		} else {
			refused = errs[i]
		}
	}
	if won.Pass == nil {
		s.Fatalf("no host wins minute %d: %v", number, errs)
	}
	return won, refused
}
