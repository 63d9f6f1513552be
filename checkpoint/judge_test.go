package checkpoint_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
)

// look checks that the task and its token have not gone back.
func (s *succession) look() {
	stored, _ := s.memory.Load(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(stored) == 0 {
		return
	}
	was, is := s.seen, stored[0]
	moved := cmp.Or(cmp.Compare(is.Run, was.Run), cmp.Compare(is.Round, was.Round),
		cmp.Compare(is.Step, was.Step))
	if moved < 0 {
		s.violated(fmt.Errorf("round %d step %d became round %d step %d", was.Round, was.Step,
			is.Round, is.Step))
	}
	if is.Token < was.Token {
		s.violated(fmt.Errorf("token %s published version %d after token %s published version %d",
			is.Token, is.Version, was.Token, was.Version))
	}
	s.seen = is
}

// violated records the first violation. The caller holds mu.
func (s *succession) violated(err error) {
	if s.wrong == nil {
		s.wrong = err
	}
}

// judge checks the result of the whole run.
func (s *succession) judge(winner *leader) error {
	for token, l := range s.leaders {
		if l != winner && l.answer == nil {
			s.violated(fmt.Errorf("the deposed leader under token %s was told "+
				"that everything is done", token))
		}
	}
	var all, effects []string
	for i := range int(s.task.Rounds) * len(s.sync) {
		place := fmt.Sprintf("step %d at %d", i%len(s.sync), i)
		all = append(all, place)
		if s.sync[i%len(s.sync)] {
			effects = append(effects, place)
		} else if s.places[place] == 0 {
			s.violated(fmt.Errorf("%q was left out", place))
		}
	}
	var got []string
	for _, e := range s.memory.Effects() {
		got = append(got, e.Value)
	}
	var state done
	if err := json.Unmarshal(s.seen.State, &state); err != nil ||
		s.seen.Status != checkpoint.Done || !slices.Equal(state.Keys, all) {
		s.violated(fmt.Errorf("it ended %s with the state %q, want %q", s.seen.Status, state.Keys, all))
	}
	if !slices.Equal(got, effects) {
		s.violated(fmt.Errorf("the effects are %q, want %q", got, effects))
	}
	return s.wrong
}
