package fencetest

import (
	"context"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

var flawsOfObservers = []flaw{
	{
		name: "lists the youngest first", clause: "candidates are listed in order", says: "the queue is",
		candidates: func(
			_ *flawed, queue []elector.Candidate, err error,
		) ([]elector.Candidate, error) {
			slices.Reverse(queue)
			return queue, err
		},
	},
	{
		name:   "says that every leader is ready",
		clause: "only an acknowledged leader is ready", says: "is ready: true",
		candidates: func(
			_ *flawed, queue []elector.Candidate, err error,
		) ([]elector.Candidate, error) {
			if len(queue) > 0 {
				queue[0].Ready = true
			}
			return queue, err
		},
	},
	{
		name:   "lists from memory while it is cut off",
		clause: "observing survives a cut", says: "that is cut off lists",
		candidates: func(
			f *flawed, queue []elector.Candidate, err error,
		) ([]elector.Candidate, error) {
			if err != nil {
				return f.listed, nil
			}
			return queue, nil
		},
	},
	{
		name: "deposes the leader, whatever the token", says: "was deposed",
		clause: "deposing takes the exact token",
		depose: func(
			f *flawed, ctx context.Context, r fence.Resource, t fence.Token,
		) (bool, error) {
			if queue := f.queueOf(ctx, r); len(queue) > 0 {
				t = queue[0].Token
			}
			return f.Coordinator.Depose(ctx, r, t)
		},
	},
	{
		name: "says that it has deposed somebody", says: "was deposed",
		clause: "deposing takes the exact token",
		depose: func(
			f *flawed, ctx context.Context, r fence.Resource, t fence.Token,
		) (bool, error) {
			_, err := f.Coordinator.Depose(ctx, r, t)
			return true, err
		},
	},
	{
		name: "shows a watcher only the first queue", says: "has not seen",
		clause: "watching sees every standing change",
		watch: func(
			_ *flawed, each func([]elector.Candidate) error,
		) func([]elector.Candidate) error {
			shown := false
			return func(queue []elector.Candidate) error {
				if shown {
					return nil
				}
				shown = true
				return each(queue)
			}
		},
	},
	{
		name:   "goes deaf when a connection breaks",
		clause: "watching and waiting survive lost connections and lost history",
		says:   "has not seen",
		watch: func(
			f *flawed, each func([]elector.Candidate) error,
		) func([]elector.Candidate) error {
			return func(queue []elector.Candidate) error {
				f.mu.Lock()
				deaf := f.dropped
				f.mu.Unlock()
				if deaf {
					return nil
				}
				return each(queue)
			}
		},
	},
	{
		name:   "shows an older queue after a newer one",
		clause: "watching and waiting survive lost connections and lost history", says: "is back",
		also: []string{"watching sees every standing change"},
		watch: func(
			_ *flawed, each func([]elector.Candidate) error,
		) func([]elector.Candidate) error {
			var last []elector.Candidate
			return func(queue []elector.Candidate) error {
				older := last
				last = queue
				return errors.Join(each(queue), each(older), each(queue))
			}
		},
	},
	{
		name: "swallows the error of a watcher", says: "whose callback failed returned",
		clause:  "watching ends with its context or its callback",
		watched: func(error) error { return nil },
	},
}

var flawsOfLeaders = []flaw{
	{
		name: "names the last of the queue", says: "named is",
		clause: "the first candidate leads, whoever waits",
		also:   []string{"leaders agree with the candidates"},
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *elector.Candidate) {
			if queue := f.queueOf(f.ctx, r); len(queue) > 0 {
				*l = queue[len(queue)-1]
			}
		}),
	},
	{
		name: "names nobody who is not ready", says: "named is",
		clause: "the first candidate leads, whoever waits",
		also:   []string{"the next one leads at once"},
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *elector.Candidate) {
			if !l.Ready {
				*l = elector.Candidate{}
			}
		}),
	},
	{
		name:   "leaves the holder out",
		clause: "leaders agree with the candidates", says: "the queue begins with",
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *elector.Candidate) { l.Holder = "" }),
	},
	{
		name: "names nobody whose holder is empty", says: "named is",
		clause: "a holder may be empty, or as long as the limit",
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *elector.Candidate) {
			if l.Holder == "" {
				*l = elector.Candidate{}
			}
		}),
	},
	{
		name:   "returns them in reverse order",
		clause: "leaders come in the order of the resources", says: "are said to be",
		leaders: func(_ *flawed, now *answer) { slices.Reverse(now.leaders) },
	},
	{
		name:   "leaves out resources that nobody leads",
		clause: "leaders come in the order of the resources", says: "leaders were named",
		leaders: func(_ *flawed, now *answer) {
			now.leaders = slices.DeleteFunc(now.leaders, func(l elector.Candidate) bool {
				return l.Token == 0
			})
		},
	},
	{
		name: "names who led first", clause: endings[0], says: "are said to be", also: endings[1:],
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *elector.Candidate) {
			if first, ok := f.first.of(r); ok {
				*l = first
			}
		}),
	},
	{
		name: "names who led at the last call", clause: endings[0], says: "are said to be",
		also: endings[1:],
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *elector.Candidate) {
			if last, ok := f.last.of(r); ok {
				*l = last
			}
		}),
	},
	{
		name:   "remembers that nobody leads",
		clause: "the first candidate leads, whoever waits", says: "named is",
		also: []string{"leaders come in the order of the resources"},
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *elector.Candidate) {
			if slices.Contains(f.empty, r) {
				*l = elector.Candidate{}
			}
		}),
	},
	{
		name:   "remembers the issuer",
		clause: "leaders come with today's issuer", says: "was renewed",
		leaders: func(f *flawed, now *answer) {
			if f.first.issuer != "" {
				now.issuer = f.first.issuer
			}
		},
	},
	{
		name:   "returns the issuer of the last call",
		clause: "leaders come with today's issuer", says: "was renewed",
		leaders: func(f *flawed, now *answer) {
			if f.last.issuer != "" {
				now.issuer = f.last.issuer
			}
		},
	},
	{
		name:   "answers from memory while it is cut off",
		clause: "a client that is cut off names no leader", says: "that is cut off names",
		leaders: func(f *flawed, now *answer) {
			if now.err != nil {
				*now = f.last
			}
		},
	},
	{
		name:   "does not check the names of resources",
		clause: "a bad resource is refused", says: "want ErrBadResource",
		leaders: func(_ *flawed, now *answer) {
			if errors.Is(now.err, fence.ErrBadResource) {
				now.err = nil
			}
		},
	},
	{
		name:   "answers when it is closed",
		clause: "closing loses the terms", says: "a closed client names",
		leaders: func(f *flawed, now *answer) {
			if f.closed {
				now.err = nil
			}
		},
	},
}

// endings are the clauses in which a term ends.
var endings = []string{
	"the next one leads at once", "a lost term is not named",
	"a leader whose session has expired is not named",
	"a leader whose entry was deleted is not named",
}
