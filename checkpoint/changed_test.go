package checkpoint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/stepchange"
	"github.com/ringfence/ringfence/internal/test/must"
)

// stepsChanged is what Task.OnStepsChanged is.
type stepsChanged = func(checkpoint.Checkpoint, []string) (checkpoint.Checkpoint, error)

// begun returns a stage with a saved task of the steps a, b and c; a is done and b is next.
func begun(t *testing.T) *stage {
	s := newStage(t)
	s.stops(tasked(s.noting("a"), s.noting("b", errBoom), s.noting("c")))
	_, err := checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly")
	must.Succeed(t, err)
	s.diary.keys = nil
	return s
}

// now returns the task with these steps and this OnStepsChanged.
func (s *stage) now(way stepsChanged, names ...string) checkpoint.Task[done] {
	t := tasked()
	t.OnStepsChanged = way
	t.Start = done{[]string{"start"}}
	for _, name := range names {
		t.Steps = append(t.Steps, s.noting(name))
	}
	return t
}

func TestATaskWithOtherStepsIsNotRun(t *testing.T) {
	for _, steps := range [][]string{{"a", "b"}, {"a", "b", "c", "d"}, {"b", "a", "c"},
		{"a", "B", "c"}} {
		s := begun(t)
		before := s.stored()
		_, err := s.run(s.now(nil, steps...))
		is(t, err, checkpoint.ErrStepsChanged)
		for _, part := range []string{"a, b, c", strings.Join(steps, ", "), `next "b"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if s.stored().Version != before.Version || len(s.diary.read()) > 0 {
			t.Errorf("version %d became %d, run %v", before.Version, s.stored().Version, s.diary.read())
		}
	}
}

func TestOnStepsChangedSaysWhereATaskWithOtherStepsContinues(t *testing.T) {
	custom := func(saved checkpoint.Checkpoint, steps []string) (checkpoint.Checkpoint, error) {
		saved.Step = len(steps) - 1
		return saved, nil
	}
	for name, c := range map[string]struct {
		way   stepsChanged
		steps string
		run   string
	}{
		"accept: one more":        {stepchange.Accept, "a b c d", "1/1/b 1/1/c 1/1/d"},
		"accept: one less behind": {stepchange.Accept, "b c", "1/1/b 1/1/c"},
		"accept: moved":           {stepchange.Accept, "b c a", "1/1/b 1/1/c 1/1/a"},
		"restart":                 {stepchange.Restart, "a x c", "2/1/a 2/1/x 2/1/c"},
		"map": {stepchange.Map(map[string]string{"b": "x"}), "a x c",
			"1/1/x 1/1/c"},
		"map another": {stepchange.Map(map[string]string{"a": "x"}), "x b c",
			"1/1/b 1/1/c"},
		"a function: step only":  {custom, "a x y", "1/1/y"},
		"same steps: not called": {stepchange.Restart, "a b c", "1/1/b 1/1/c"},
		"map to a step that was there": {stepchange.Map(map[string]string{"b": "c"}),
			"a c", "1/1/c"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			cp := s.finishes(s.now(c.way, strings.Fields(c.steps)...))
			var want []string
			for _, key := range strings.Fields(c.run) {
				want = append(want, "nightly/"+key)
			}
			equal(t, "run", s.diary.read(), want)
			equal(t, "saved steps", cp.Steps, strings.Fields(c.steps))
			if first := "nightly/1/1/a"; cp.Run == 2 {
				equal(t, "state", s.state().Keys, append([]string{"start"}, want...))
			} else {
				equal(t, "state", s.state().Keys, append([]string{first}, want...))
			}
		})
	}
}

func TestIfOnStepsChangedFailsNothingRuns(t *testing.T) {
	for name, c := range map[string]struct {
		way  stepsChanged
		says string
	}{
		"accept": {stepchange.Accept, `no step is called "b"`},
		"map":    {stepchange.Map(map[string]string{"b": "d"}), `no step is called "d"`},
		"a function": {func(cp checkpoint.Checkpoint, _ []string) (checkpoint.Checkpoint, error) {
			return cp, errBoom
		}, "boom"},
		"too far": {func(cp checkpoint.Checkpoint, _ []string) (checkpoint.Checkpoint, error) {
			cp.Step = 9
			return cp, nil
		}, "10 of 2"},
		"below": {func(cp checkpoint.Checkpoint, _ []string) (checkpoint.Checkpoint, error) {
			cp.Step = -1
			return cp, nil
		}, "0 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			before := s.stored()
			_, err := s.run(s.now(c.way, "a", "c"))
			if !errors.Is(err, checkpoint.ErrStepsChanged) &&
				!errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
			if s.stored().Version != before.Version || len(s.diary.read()) > 0 {
				t.Errorf("version %d became %d, run %v", before.Version, s.stored().Version, s.diary.read())
			}
		})
	}
}

// Changed cannot change the name, the resource or the version.
func TestChangedCannotMoveToAnotherTask(t *testing.T) {
	s := begun(t)
	cp := s.finishes(s.now(func(
		_ checkpoint.Checkpoint, steps []string,
	) (checkpoint.Checkpoint, error) {
		return checkpoint.Checkpoint{Run: 5, Round: 1, Status: checkpoint.Running, Step: 1,
			State: []byte(`{"Keys":["own"]}`), Version: 77}, nil
	}, "x", "y"))
	if cp.Task != "nightly" || cp.Resource != orders || s.stored().Nonce != cp.Nonce {
		t.Errorf("ended as %+v, stored %+v", cp, s.stored())
	}
	equal(t, "run", s.diary.read(), []string{"nightly/5/1/y"})
	equal(t, "state", s.state().Keys, []string{"own", "nightly/5/1/y"})
}

// The list may change in any way before the first step of a run.
func TestATaskThatHasNotBegunMayChange(t *testing.T) {
	s := newStage(t)
	s.finishes(s.now(nil, "a", "b"))
	_, err := checkpoint.Restart(t.Context(), s.term(), s.journal, "nightly")
	must.Succeed(t, err)
	s.diary.keys = nil
	cp := s.finishes(s.now(nil, "x", "y", "z"))
	equal(t, "run", s.diary.read(), []string{"nightly/2/1/x", "nightly/2/1/y", "nightly/2/1/z"})
	equal(t, "saved steps", cp.Steps, []string{"x", "y", "z"})
}

func TestTheKeyIsTheSameForEveryLeaderAndDiffersByRunRoundAndStep(t *testing.T) {
	s := newStage(t)
	seen := map[string]int{}
	for run := range 3 {
		task := tasked(s.noting("a", errBoom, nil, errBoom, nil), s.noting("b"))
		task.Rounds = 2
		for s.stored().Status != checkpoint.Done {
			_, err := s.run(task)
			if stopped := errors.Is(err, checkpoint.ErrStopped); stopped {
				_, err = checkpoint.Resume(t.Context(), s.term(), s.journal, "nightly")
			}
			must.Succeed(t, err)
		}
		for _, key := range s.diary.read() {
			seen[key]++
		}
		s.diary.keys = nil
		for round := range 2 {
			for step, n := range map[string]int{"a": 2, "b": 1} {
				if key := fmt.Sprintf("nightly/%d/%d/%s", run+1, round+1, step); seen[key] != n {
					t.Errorf("%s was seen %d times, want %d", key, seen[key], n)
				}
			}
		}
		_, err := checkpoint.Restart(t.Context(), s.term(), s.journal, "nightly")
		must.Succeed(t, err)
	}
	if len(seen) != 3*2*2 {
		t.Errorf("the keys are %v", seen)
	}
}
