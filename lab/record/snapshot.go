package record

import (
	"maps"

	"github.com/ringfence/ringfence/fence"
)

// Snapshot is the state of a run, to see later what has changed.
type Snapshot struct {
	leader string
	since  int64 // when the leader became ready
	terms  int   // that became ready
	acked  int
	by     map[string]int // acknowledged, of each worker

	held     map[string]fence.Token // the jobs that the targets run, with their tokens
	assigner string
}

// Snapshot takes note of the present state, and of the jobs that these processes run.
func (s *Seen) Snapshot(targets []string) Snapshot {
	return Snapshot{
		leader: s.Leader(), since: s.ready[s.Leader()], terms: len(s.terms), acked: s.Acked,
		by:       maps.Clone(s.ackedBy),
		assigner: s.Jobs.Assigner, held: s.Jobs.heldBy(targets),
	}
}

// Written reports whether somebody has written since.
func (p Snapshot) Written(s *Seen) bool { return s.Acked > p.acked+20 }

// NextLeads reports whether another worker leads and has written since.
func (p Snapshot) NextLeads(s *Seen) bool {
	now := s.Leader()
	return now != "" && now != p.leader && s.ackedBy[now] > p.by[now]+5
}

// GivenUp reports whether the leader of the snapshot has said that its term is over, or has ended.
func (p Snapshot) GivenUp(s *Seen) bool { return s.ready[p.leader] != p.since }

// Tried reports whether another worker than the leader of the snapshot has written since, or gave
// up and stands for election.
func (p Snapshot) Tried(s *Seen) bool {
	for w, n := range s.ackedBy {
		if w != p.leader && n > p.by[w]+5 {
			return true
		}
	}
	for w := range s.standing {
		if w != p.leader {
			return true
		}
	}
	return false
}

// Passed reports whether a few terms have passed the token of the last one that became ready, or
// another one has become ready.
func (p Snapshot) Passed(s *Seen) bool { return s.above >= 3 || len(s.terms) > p.terms }

// HandedOver reports whether each job that was run by the targets runs again and has written, or
// has ended.
func (p Snapshot) HandedOver(s *Seen) bool {
	for job, token := range p.held {
		run := s.Jobs.runs[job]
		again := run.token != token && run.acked > 0
		if !again && !s.Jobs.done[job] {
			return false
		}
	}
	return true
}

// NextAssigns reports whether another worker assigns jobs.
func (p Snapshot) NextAssigns(s *Seen) bool {
	return s.Jobs.Assigner != "" && s.Jobs.Assigner != p.assigner
}
