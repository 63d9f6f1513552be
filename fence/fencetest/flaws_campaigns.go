package fencetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

var flawsOfCampaigns = []flaw{
	{
		name:   "gives a term to a waiting candidate",
		clause: "a waiting candidate has no term", says: "was given a term",
		also: []string{"there is at most one active term"},
		campaign: tooEarly(func(queue []elector.Candidate, own int, _ *fence.Token) bool {
			return own > 0
		}),
	},
	{
		name: "leads when the one ahead has gone", says: "was given a term",
		clause: "a death in the middle of the queue lets nobody lead",
		campaign: tooEarly(func(queue []elector.Candidate, own int, ahead *fence.Token) bool {
			if *ahead == 0 && own > 0 {
				*ahead = queue[own-1].Token
			}
			return *ahead != 0 && !slices.ContainsFunc(queue, func(c elector.Candidate) bool {
				return c.Token == *ahead
			})
		}),
	},
	{
		name:   "gives up a campaign whose candidate is gone",
		clause: "deleting a waiting entry lets nobody lead", says: "waiting until the queue is",
		also: []string{
			"a deposed candidate enrols again at the tail",
			"an expired candidate enrols again at the tail",
			"a cut candidate in the middle lets nobody lead and comes back",
		},
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			inner, giveUp := context.WithCancel(ctx)
			defer giveUp()
			own := &standing{resource: r, holder: holder, giveUp: giveUp, over: make(chan struct{})}
			f.mu.Lock()
			f.standing = append(f.standing, own)
			f.mu.Unlock()
			term, err := f.rightCampaign(inner, r, holder)
			close(own.over)
			if err != nil && inner.Err() != nil {
				<-ctx.Done()
			}
			return term, err
		},
	},
	{
		name:   "leaves the candidate of a cancelled campaign",
		clause: "a cancelled campaign leaves nothing behind", says: "the cancelled candidate is gone",
		also: []string{"a campaign that is cancelled out of reach leaves nothing behind"},
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			select {
			case term := <-f.inBackground(r, holder):
				return term, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-f.ctx.Done():
				return nil, ErrClosed
			}
		},
	},
	{
		name:   "enrols twice when a reply is lost",
		clause: "an enrolment whose reply was lost happens once", says: "after a lost reply",
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			f.mu.Lock()
			again := f.loseReply
			f.loseReply = false
			f.mu.Unlock()
			term, err := f.rightCampaign(ctx, r, holder)
			if err == nil && again {
				f.inBackground(r, holder)
				f.poll(ctx, func() bool { return len(f.queueOf(ctx, r)) > 1 })
			}
			return term, err
		},
	},
	{
		name:   "opens a session for every campaign",
		clause: "one session carries a thousand elections", says: "sessions for",
		shows: func(f Fixture) bool { return f.Sessions != nil },
		change: func(f *Fixture) { // every session is a client
			f.Elections = 4
		},
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			f.world.mu.Lock()
			open := f.world.open
			f.world.mu.Unlock()
			other := open()
			f.mu.Lock()
			f.others = append(f.others, other)
			f.mu.Unlock()
			term, err := other.Campaign(ctx, r, holder)
			if err != nil {
				return nil, err
			}
			return f.shadowOf(term), nil
		},
	},
	{
		name: "keeps only the ASCII of a holder", clause: "a holder is any text",
		says: "the claim's holder is",
		campaign: renamed(func(holder string) string {
			return strings.Map(func(c rune) rune {
				if c > 127 {
					return '?'
				}
				return c
			}, holder)
		}),
	},
	{
		name: "gives a holder without a name one", says: "the claim of",
		clause: "a holder may be empty, or as long as the limit",
		campaign: renamed(func(holder string) string {
			if holder == "" {
				return "somebody"
			}
			return holder
		}),
	},
	{
		name: "shortens a long holder", says: "the claim of",
		clause: "a holder may be empty, or as long as the limit",
		campaign: renamed(func(holder string) string {
			return strings.ToValidUTF8(holder[:min(len(holder), 255)], "")
		}),
	},
	{
		name: "shortens a holder over the limit", says: "want ErrBadHolder",
		clause: "a holder over the limit is refused, and nothing is lost",
		campaign: renamed(func(holder string) string {
			return holder[:min(len(holder), elector.MaxHolder)]
		}),
	},
	{
		name:   "resigns everything when a holder is refused",
		clause: "a holder over the limit is refused, and nothing is lost", says: "want active",
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			term, err := f.rightCampaign(ctx, r, holder)
			if errors.Is(err, elector.ErrBadHolder) {
				f.resignAll(ctx)
			}
			return term, err
		},
	},
}
