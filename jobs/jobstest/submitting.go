package jobstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func submitAll(s *stage) {
	const many = 60
	specs := make([]job.Spec, many)
	for i := range specs {
		specs[i] = job.Spec{Kind: "job", Payload: number(i)}
	}
	specs[10].Unique, specs[20].Unique, specs[50].Unique = "key", "key", "key"
	ids, err := s.queue.SubmitAll(s.ctx, specs)
	if err != nil || len(ids) != many {
		s.Fatal(ids, err)
	}
	if ids[20] != ids[10] || ids[50] != ids[10] {
		s.Errorf("%s, %s and %s have one key", ids[10], ids[20], ids[50])
	}
	waiting, err := s.docs.Names(s.ctx, "jobs/"+s.name+"/waiting")
	if err != nil {
		s.Fatal(err)
	}
	want := slices.Delete(slices.Delete(slices.Clone(ids), 50, 51), 20, 21)
	if !slices.EqualFunc(waiting, want, func(entry string, id job.ID) bool {
		return strings.Contains(entry, "."+string(id)+".")
	}) {
		s.Errorf("%d jobs wait in another order than %d were handed in", len(waiting), len(want))
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	for i, id := range ids {
		if end := s.ends(id, job.Done); string(end.Result) != fmt.Sprint(i) && i != 20 && i != 50 {
			s.Errorf("job %d: %+v", i, end)
		}
	}
	all := 0
	if err := s.queue.List(s.ctx, func(job.Status) error {
		all++
		return nil
	}); err != nil || all != many-2 {
		s.Errorf("there are %d jobs, want %d: %v", all, many-2, err)
	}
	specs[59].Kind = ""
	if ids, err := s.queue.SubmitAll(s.ctx, specs); len(ids) != 0 || !errors.Is(err, job.ErrBadSpec) {
		s.Errorf("with a bad one: %v, %v", ids, err)
	}
}

func uniqueIsOnce(s *stage) {
	first := s.submit(job.Spec{Unique: "night/2026 ü"})
	if again := s.submit(job.Spec{Unique: "night/2026 ü"}); again != first {
		s.Errorf("%s and %s have one key", first, again)
	}
	if other := s.submit(job.Spec{Unique: "night/2027"}); other == first {
		s.Error("two keys are one job")
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	s.ends(first, job.Done)
	if later := s.submit(job.Spec{Unique: "night/2026 ü"}); later == first {
		s.Error("the key of a finished job is still taken")
	}
}

func badSpecs(s *stage) {
	for what, bad := range map[string]job.Spec{
		"no kind":         {},
		"a long payload":  {Kind: "a", Payload: []byte(`"` + strings.Repeat("x", job.MaxPayload) + `"`)},
		"no JSON":         {Kind: "a", Payload: []byte("{")},
		"a resource":      {Kind: "a", Resource: "Bad"},
		"a priority":      {Kind: "a", Priority: 10},
		"retries":         {Kind: "a", Retries: -1},
		"a timeout":       {Kind: "a", Timeout: -1},
		"a label":         {Kind: "a", Labels: []string{"a b"}},
		"a period":        {Kind: "a", Every: "1ms"},
		"a schedule":      {Kind: "a", Every: "every day"},
		"no such day":     {Kind: "a", Every: "0 3 30 2 *"},
		"a time zone":     {Kind: "a", Every: "TZ=Nowhere/Unknown 0 3 * * *"},
		"a zone alone":    {Kind: "a", Every: "CRON_TZ=UTC"},
		"a title":         {Kind: "a", Title: strings.Repeat("x", job.MaxTitle+1)},
		"a unique key":    {Kind: "a", Unique: strings.Repeat("x", job.MaxUnique+1)},
		"a far year":      {Kind: "a", NotBefore: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"a year long ago": {Kind: "a", NotBefore: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
		"the members":     {Kind: "a", Resource: s.queue.Group().Election()},
		"who assigns":     {Kind: "a", Resource: s.queue.Leader()},
		"several at once": {Every: "x", Priority: -1},
	} {
		if id, err := s.queue.Submit(s.ctx, bad); !errors.Is(err, job.ErrBadSpec) {
			s.Errorf("%s: %s, %v", what, id, err)
		}
		if _, err := s.queue.SubmitAll(s.ctx, []job.Spec{bad}); !errors.Is(err, job.ErrBadSpec) {
			s.Errorf("%s, several: %v", what, err)
		}
	}
	if _, err := s.queue.Get(s.ctx, "no-id"); !errors.Is(err, job.ErrBadID) {
		s.Error(err)
	}
	if _, err := s.queue.Get(s.ctx, "00000000000000000000000000"); !errors.Is(err,
		job.ErrNotFound) {
		s.Error(err)
	}
	if err := s.queue.Cancel(s.ctx, "00000000000000000000000000"); !errors.Is(err,
		job.ErrNotFound) {
		s.Error(err)
	}
}

// backlogIsBounded hands in jobs until no more may wait. Nothing of a refused one stays.
func backlogIsBounded(s *stage) {
	big := job.Spec{Kind: "job", Payload: []byte(`"` + strings.Repeat("x", job.MaxPayload-2) + `"`)}
	unique := big
	unique.Unique = "one"
	first := s.submit(unique)
	const fit = jobs.MaxWaitingBytes / job.MaxPayload
	specs := slices.Repeat([]job.Spec{big}, fit+20)
	ids, err := s.queue.SubmitAll(s.ctx, specs)
	if !errors.Is(err, jobs.ErrFull) || len(ids) > fit || len(ids) < fit*9/10 {
		s.Fatalf("%d jobs wait, and %d fit: %v", len(ids), fit, err)
	}
	if id, err := s.queue.Submit(s.ctx, big); !errors.Is(err, jobs.ErrFull) {
		s.Errorf("%q, %v", id, err)
	}
	if id, err := s.queue.Submit(s.ctx, unique); id != first || err != nil {
		s.Errorf("its unique key is taken: %q, %v", id, err)
	}
	if n := s.documents("waiting"); n != len(ids)+1 || s.documents("statuses") != n {
		s.Errorf("%d entries, %d statuses", n, s.documents("statuses"))
	}
	for _, id := range ids[:2] {
		if err := s.queue.Cancel(s.ctx, id); err != nil {
			s.Error(err)
		}
	}
	s.eventually("there is room again", func() bool {
		_, err := s.queue.Submit(s.ctx, big)
		return err == nil
	})
}
