package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// flaw is one way to be wrong. Where a function is nil, the coordinator is right.
type flaw struct {
	name   string
	clause string               // the clause that finds it soonest on a real server
	says   string               // words of that clause's failure
	also   []string             // more clauses that find it
	needs  func(Harness) string // a part of the harness without which it is no flaw
	change func(*Harness)
	opened func(*flawed)

	campaign   func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error)
	depose     func(*flawed, context.Context, fence.Resource, fence.Token) (bool, error)
	candidates func(*flawed, []fence.Candidate, error) ([]fence.Candidate, error)
	leaders    func(*flawed, *answer)
	watch      func(*flawed, func([]fence.Candidate) error) func([]fence.Candidate) error
	watched    func(error) error // what Watch returns
	renew      func(*flawed, context.Context) (fence.Issuer, error)

	claim       func(*fence.Claim)
	follow      func(*shadow, fence.State) // what becomes of the term in this state of the right one
	acknowledge func(*shadow, context.Context) error
	release     func(*shadow, context.Context) error
}

// flaws is the table of flaws. Some cannot be made from outside, on a real server: two candidates
// that the server itself elects, a counter that goes back, a reply from memory that was right
// until a moment ago. The tests of the coordinators have these, with faults of the server. That an
// issuer comes back is a lie of the clients here. A goroutine that Close leaves is not in the
// table, because the clause about it has subtests, which a witness cannot have.
var flaws = slices.Concat(
	flawsOfCampaigns, flawsOfTerms, flawsOfReleases, flawsOfObservers, flawsOfLeaders, flawsOfIssuers,
)

var flawsOfCampaigns = []flaw{
	{
		name:   "gives a term to a waiting candidate",
		clause: "a waiting candidate has no term", says: "was given a term",
		also: []string{"there is at most one active term"},
		campaign: tooEarly(func(queue []fence.Candidate, own int, _ *fence.Token) bool {
			return own > 0
		}),
	},
	{
		name: "leads when the one ahead has gone", says: "was given a term",
		clause: "a death in the middle of the queue lets nobody lead",
		campaign: tooEarly(func(queue []fence.Candidate, own int, ahead *fence.Token) bool {
			if *ahead == 0 && own > 0 {
				*ahead = queue[own-1].Token
			}
			return *ahead != 0 && !slices.ContainsFunc(queue, func(c fence.Candidate) bool {
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
		needs: func(h Harness) string { return missing(h.Sessions == nil, "Sessions") },
		change: func(h *Harness) { // every session is a client
			h.Elections = 4
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
			return holder[:min(len(holder), fence.HolderMost)]
		}),
	},
	{
		name:   "resigns everything when a holder is refused",
		clause: "a holder over the limit is refused, and nothing is lost", says: "want active",
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			term, err := f.rightCampaign(ctx, r, holder)
			if errors.Is(err, fence.ErrBadHolder) {
				f.resignAll(ctx)
			}
			return term, err
		},
	},
}

var flawsOfTerms = []flaw{
	{
		name: "names nobody in its claims", clause: "a term says who won what", says: "the claim is",
		claim: func(c *fence.Claim) { c.Holder = "" },
	},
	{
		name:   "gives every term of a resource one token",
		clause: "tokens of successive terms rise", says: "has token",
		also:  []string{"one client may lead several resources"},
		claim: func(c *fence.Claim) { c.Token = 7 },
	},
	{
		name: "loses its term at the first cut", says: "is lost",
		clause: "a short cut suspends and resumes the same term",
		follow: func(s *shadow, state fence.State) {
			if s.f.isCut() {
				s.keeper.Lose(fence.ErrExpired)
			}
			s.obey(state)
		},
	},
	{
		name: "keeps its term without the coordinator", says: "want lost",
		clause: "a long cut expires the term before the next one starts",
		follow: func(s *shadow, state fence.State) {
			if s.f.isCut() {
				s.keeper.Confirm(time.Now())
				return
			}
			s.obey(state)
		},
	},
	{
		// Of a starved process that notes when it reads the reply, not when it has sent the request.
		name: "counts its deadline from the reply", says: "want lost",
		clause: "a long cut expires the term before the next one starts",
		also:   []string{"a starved process knows whether it leads"},
		follow: func(s *shadow, state fence.State) {
			if state == fence.Lost && !errors.Is(context.Cause(s.right.Context()), fence.ErrExpired) {
				s.obey(state)
				return
			}
			reply := s.confirmed().Add(s.f.world.timeout / 3)
			if len(s.replies) == 0 || reply.After(s.replies[len(s.replies)-1]) {
				s.replies = append(s.replies, reply)
			}
			for len(s.replies) > 0 && !s.replies[0].After(time.Now()) {
				s.keeper.Confirm(s.replies[0])
				s.replies = s.replies[1:]
			}
			if state == fence.Suspended {
				s.keeper.Suspend()
			}
		},
	},
	{
		name: "does not notice that its session has expired", says: "want it lost",
		clause: "an expired session ends the term", follow: deafTo(fence.ErrExpired),
	},
	{
		name: "does not notice that it was deposed", says: "want it lost",
		clause: "deleting the leader's entry deposes it",
		also: []string{
			"deposing takes the exact token", "a late resign cannot touch a newer term",
		},
		follow: deafTo(fence.ErrDeposed),
	},
	{
		name: "keeps its terms when it is closed", says: "want it lost",
		clause: "closing loses the terms",
		also:   []string{"one session carries a thousand elections"},
		follow: func(s *shadow, state fence.State) {
			if state != fence.Lost {
				s.obey(state)
			}
		},
	},
	{
		name:   "acknowledges in memory",
		clause: "only an acknowledged leader is ready", says: "is ready: false",
		also:        []string{"watching sees every standing change"},
		acknowledge: func(*shadow, context.Context) error { return nil },
	},
	{
		name:   "acknowledges although it was deposed",
		clause: "a deposed leader cannot acknowledge", says: "a deposed leader has acknowledged",
		follow:      deafTo(fence.ErrDeposed),
		acknowledge: func(*shadow, context.Context) error { return nil },
	},
}

var flawsOfReleases = []flaw{
	{
		name:   "resigns only in memory",
		clause: "a resignation without the coordinator still ends the term", says: "is no error",
		also: []string{
			"resigning lets the next in at once",
			"a resignation out of reach arrives when the coordinator is back",
			"tokens of successive terms rise",
		},
		release: func(*shadow, context.Context) error { return nil },
	},
	{
		name:   "forgets a resignation that could not arrive",
		clause: "a resignation out of reach arrives when the coordinator is back",
		says:   "b does not lead",
		release: func(s *shadow, ctx context.Context) error {
			if s.f.isCut() {
				return errors.New("the candidate may stay, and does")
			}
			return s.right.Resign(ctx)
		},
	},
	{
		name:   "does not say that a candidate may stay",
		clause: "a resignation out of reach arrives when the coordinator is back",
		says:   "does not say that the candidate may stay",
		release: func(s *shadow, ctx context.Context) error {
			if err := s.right.Resign(ctx); err != nil {
				return errors.New("timeout")
			}
			return nil
		},
	},
	{
		name: "resigns every term of the client", says: "want active",
		clause: "one client may lead several resources",
		also: []string{
			"one session carries a thousand elections",
			"a resignation out of reach arrives when the coordinator is back",
		},
		release: func(s *shadow, ctx context.Context) error {
			s.f.resignAll(ctx)
			return s.right.Resign(ctx)
		},
	},
	{
		name: "resigns for whoever leads", says: "the queue is",
		clause: "a late resign cannot touch a newer term",
		release: func(s *shadow, ctx context.Context) error {
			r := s.term.Claim().Resource
			if queue := s.f.queueOf(ctx, r); len(queue) > 0 {
				if _, err := s.f.Coordinator.Depose(ctx, r, queue[0].Token); err != nil {
					return err
				}
			}
			return s.right.Resign(ctx)
		},
	},
}

var flawsOfObservers = []flaw{
	{
		name: "lists the youngest first", clause: "candidates are listed in order", says: "the queue is",
		candidates: func(
			_ *flawed, queue []fence.Candidate, err error,
		) ([]fence.Candidate, error) {
			slices.Reverse(queue)
			return queue, err
		},
	},
	{
		name:   "says that every leader is ready",
		clause: "only an acknowledged leader is ready", says: "is ready: true",
		candidates: func(
			_ *flawed, queue []fence.Candidate, err error,
		) ([]fence.Candidate, error) {
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
			f *flawed, queue []fence.Candidate, err error,
		) ([]fence.Candidate, error) {
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
			_ *flawed, each func([]fence.Candidate) error,
		) func([]fence.Candidate) error {
			shown := false
			return func(queue []fence.Candidate) error {
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
			f *flawed, each func([]fence.Candidate) error,
		) func([]fence.Candidate) error {
			return func(queue []fence.Candidate) error {
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
			_ *flawed, each func([]fence.Candidate) error,
		) func([]fence.Candidate) error {
			var last []fence.Candidate
			return func(queue []fence.Candidate) error {
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
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if queue := f.queueOf(f.ctx, r); len(queue) > 0 {
				*l = queue[len(queue)-1]
			}
		}),
	},
	{
		name: "names nobody who is not ready", says: "named is",
		clause: "the first candidate leads, whoever waits",
		also:   []string{"the next one leads at once"},
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *fence.Candidate) {
			if !l.Ready {
				*l = fence.Candidate{}
			}
		}),
	},
	{
		name:   "leaves the holder out",
		clause: "leaders agree with the candidates", says: "the queue begins with",
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *fence.Candidate) { l.Holder = "" }),
	},
	{
		name: "names nobody whose holder is empty", says: "named is",
		clause: "a holder may be empty, or as long as the limit",
		leaders: eachLeader(func(_ *flawed, _ fence.Resource, l *fence.Candidate) {
			if l.Holder == "" {
				*l = fence.Candidate{}
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
			now.leaders = slices.DeleteFunc(now.leaders, func(l fence.Candidate) bool {
				return l.Token == 0
			})
		},
	},
	{
		name: "names who led first", clause: endings[0], says: "are said to be", also: endings[1:],
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if first, ok := f.first.of(r); ok {
				*l = first
			}
		}),
	},
	{
		name: "names who led at the last call", clause: endings[0], says: "are said to be",
		also: endings[1:],
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if last, ok := f.last.of(r); ok {
				*l = last
			}
		}),
	},
	{
		name:   "remembers that nobody leads",
		clause: "the first candidate leads, whoever waits", says: "named is",
		also: []string{"leaders come in the order of the resources"},
		leaders: eachLeader(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if slices.Contains(f.empty, r) {
				*l = fence.Candidate{}
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

var flawsOfIssuers = []flaw{
	{
		name:   "makes up an issuer for every client",
		clause: "the issuer is one and stable", says: "clients see the issuers",
		opened: func(f *flawed) { f.own = fence.Issuer(rand.Text()) },
	},
	{
		name: "renews nothing", clause: "a renewed issuer is another one", says: "is no new one",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			return f.Coordinator.Issuer(ctx)
		},
	},
	{
		name:   "returns the earlier issuer",
		clause: "a renewed issuer is another one", says: "is no new one",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			before, _ := f.Coordinator.Issuer(ctx)
			_, err := f.Coordinator.RenewIssuer(ctx)
			return before, err
		},
	},
	{
		name:   "renews for itself alone",
		clause: "a renewed issuer is another one", says: "a client says",
		renew: func(f *flawed, _ context.Context) (fence.Issuer, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.own = fence.Issuer(rand.Text())
			return f.own, nil
		},
	},
	{
		name:   "comes back to an earlier issuer",
		clause: "a renewed issuer is another one", says: "is no new one",
		renew: func(f *flawed, _ context.Context) (fence.Issuer, error) {
			f.world.mu.Lock()
			defer f.world.mu.Unlock()
			f.world.renewed++
			f.world.issuer = []fence.Issuer{"one", "other"}[f.world.renewed%2]
			return f.world.issuer, nil
		},
	},
	{
		name:   "renews when it is closed",
		clause: "a closed client renews nothing", says: "a closed client renews",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			return f.alive().RenewIssuer(ctx)
		},
	},
	{
		name:   "renews when it is closed, and returns an error",
		clause: "a closed client renews nothing", says: "the issuer was",
		renew: func(f *flawed, ctx context.Context) (fence.Issuer, error) {
			_, _ = f.alive().RenewIssuer(ctx)
			return f.Coordinator.Issuer(ctx)
		},
	},
}

// alive returns a right client that is not closed.
func (f *flawed) alive() fence.Coordinator {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	for _, c := range f.world.clients {
		if !c.isClosed() {
			return c.Coordinator
		}
	}
	return f.Coordinator
}

// tooEarly makes a campaign that returns a term when it may, although nobody has won it. ahead is
// what may has noted.
func tooEarly(
	may func(queue []fence.Candidate, own int, ahead *fence.Token) bool,
) func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error) {
	return func(
		f *flawed, ctx context.Context, r fence.Resource, holder string,
	) (*fence.Term, error) {
		won := f.inBackground(r, holder)
		var right *fence.Term
		var own fence.Candidate
		var ahead fence.Token
		f.poll(ctx, func() bool {
			select {
			case right = <-won:
				return true
			default:
			}
			queue := f.queueOf(ctx, r)
			i := slices.IndexFunc(queue, func(c fence.Candidate) bool { return c.Holder == holder })
			if i < 0 {
				return false
			}
			own = queue[i]
			return may(queue, i, &ahead)
		})
		switch {
		case right != nil:
			return right, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case f.isClosed():
			return nil, ErrClosed
		}
		return f.madeUp(ctx, r, own), nil
	}
}

// poll returns when it holds, or ctx ends, or the client is closed.
func (f *flawed) poll(ctx context.Context, holds func() bool) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// renamed makes a campaign under another name.
func renamed(
	name func(string) string,
) func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error) {
	return func(
		f *flawed, ctx context.Context, r fence.Resource, holder string,
	) (*fence.Term, error) {
		return f.rightCampaign(ctx, r, name(holder))
	}
}

// deafTo makes a term that does not end for this reason.
func deafTo(why error) func(*shadow, fence.State) {
	return func(s *shadow, state fence.State) {
		if state == fence.Lost && errors.Is(context.Cause(s.right.Context()), why) {
			s.keeper.Confirm(time.Now())
			return
		}
		s.obey(state)
	}
}

// eachLeader makes a flaw that changes the leader of each resource.
func eachLeader(
	change func(f *flawed, r fence.Resource, leader *fence.Candidate),
) func(*flawed, *answer) {
	return func(f *flawed, now *answer) {
		for i := range now.leaders {
			change(f, now.asked[i], &now.leaders[i])
		}
	}
}

// resignAll resigns every term of the client.
func (f *flawed) resignAll(ctx context.Context) {
	f.mu.Lock()
	all := slices.Clone(f.terms)
	f.mu.Unlock()
	for _, s := range all {
		s.keeper.Lose(fence.ErrResigned)
		_ = s.right.Resign(ctx)
	}
}
