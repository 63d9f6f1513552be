package checkpoint_test

import (
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
)

func TestResumeContinuesWithTheStepThatStopped(t *testing.T) {
	s := newStage(t)
	task := tasked(s.noting("a"), s.noting("b", errBoom, nil), appending("c"))
	s.stops(task)
	before := s.stored()
	cp, err := checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly")
	if err != nil || cp.Status != checkpoint.Running || cp.Failure != nil || cp.Next() != "b" ||
		cp.Version != before.Version+1 || cp.Token != s.token {
		t.Errorf("%v, %+v", err, cp)
	}
	s.finishes(task)
	equal(t, "run", s.diary.read(), []string{"nightly/1/1/a", "nightly/1/1/b", "nightly/1/1/b"})
	equal(t, "effects", s.effects(), []string{"c"})
}

func TestResumeDoesNotChangeATaskThatIsNotStopped(t *testing.T) {
	s := newStage(t)
	done := s.finishes(tasked(s.noting("a")))
	cp, err := checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly")
	if err != nil || cp.Version != done.Version || s.stored().Version != done.Version {
		t.Errorf("%v, %+v", err, cp)
	}
}

func TestRestartBeginsANewRunWhateverTheStatus(t *testing.T) {
	for name, begin := range map[string]func(s *stage, task checkpoint.Task[done]){
		"stopped": func(s *stage, task checkpoint.Task[done]) {
			task.Steps = tasked(s.noting("a"), s.noting("b", errBoom)).Steps
			s.stops(task)
		},
		"done":    func(s *stage, task checkpoint.Task[done]) { s.finishes(task) },
		"running": func(s *stage, task checkpoint.Task[done]) { s.put(func(*checkpoint.Checkpoint) {}) },
		"started": func(s *stage, task checkpoint.Task[done]) {
			s.put(func(cp *checkpoint.Checkpoint) { cp.Status = checkpoint.Started })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			task := s.now(nil, "a", "b")
			begin(s, task)
			s.diary.keys = nil
			before := s.stored()
			cp, err := checkpoint.Restart(t.Context(), s.term(), s.journal, "nightly")
			if err != nil || cp.Run != 2 || cp.Round != 1 || cp.Step != 0 ||
				cp.Status != checkpoint.Running || cp.Failure != nil || cp.Version != before.Version+1 {
				t.Errorf("%v, %+v", err, cp)
			}
			s.finishes(task)
			equal(t, "run", s.diary.read(), []string{"nightly/2/1/a", "nightly/2/1/b"})
			equal(t, "state", s.state().Keys, []string{"start", "nightly/2/1/a", "nightly/2/1/b"})
		})
	}
}

func TestAnOperatorNeedsATaskAndATerm(t *testing.T) {
	for name, edit := range map[string]func(s *stage, term *fence.Term) (checkpoint.Checkpoint, error){
		"resume": func(s *stage, term *fence.Term) (checkpoint.Checkpoint, error) {
			return checkpoint.Resume(s.Context(), term, s.journal, "nightly")
		},
		"restart": func(s *stage, term *fence.Term) (checkpoint.Checkpoint, error) {
			return checkpoint.Restart(s.Context(), term, s.journal, "nightly")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				_, err := edit(s, s.term())
				is(t, err, checkpoint.ErrNotFound)
				old := s.term()
				s.stops(tasked(s.noting("a", errBoom)))
				before := s.stored()
				_, err = edit(s, old)
				is(t, err, fence.ErrStale)
				lost, keeper := s.lead()
				keeper.Lose(fence.ErrDeposed)
				_, err = edit(s, lost)
				is(t, err, fence.ErrDeposed)
				if s.stored().Version != before.Version {
					t.Errorf("stored %+v", s.stored())
				}
				s.faulty(checkpointtest.Publish, checkpointtest.OutOfReach,
					checkpointtest.LostRequest, checkpointtest.LostReply)
				if cp, err := edit(s, s.term()); err != nil || cp.Version != before.Version+1 ||
					s.stored().Nonce != cp.Nonce {
					t.Errorf("%v, %+v", err, cp)
				}
			})
		})
	}
}
