package markstest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
	"github.com/ringfence/ringfence/internal/test/must"
)

var admissionClauses = []contract.Clause[*stage]{
	{Name: "Admission admits a newer leader, ends the older one's session and tells it why",
		Holds: admissionTakesOver},
	{Name: "Admission lets only the elected leader raise the mark", Holds: admissionAsksCoordinator},
	{
		Name: "Admission notices that the coordinator was rolled back, and tells the coordinator's " +
			"leader",
		Holds: admissionSeesRollback},
	{Name: "Admission writes down that the coordinator was rolled back also if it remembers the " +
		"mark better",
		Holds: admissionSeesRollbackAfterARestart},
	{Name: "Admission notices that the mark is another candidate's with the same token",
		Holds: admissionOfAnotherCandidate},
	{Name: "Admission refuses what is below a mark that the store has lost without a trace",
		Holds: admissionRemembersAHigherMark},
	{Name: "Admission refuses the leader of a coordinator that has gone back together with the store",
		Holds: admissionRemembersMoreThanTheCoordinator},
	{Name: "Admission notices that the coordinator was replaced, and waits for the operator",
		Holds: admissionNeedsAdopt},
	{Name: "Admission admits nobody who does not lead now, whatever the mark says",
		Holds: admissionNeedsTheLeader},
	{Name: "Admission without a coordinator admits the leader again after a restart",
		Holds: admissionAfterRestart},
	{Name: "Admission refuses known stale claims without the store, " +
		"and forgets them when an operator adopts", Holds: admissionRemembersStale},
	{Name: "Admission notices an adoption under the same issuer", Holds: admissionSeesAdoption},
	{Name: "When leaders compete through several guards, no older one writes after a newer one",
		Holds: admissionsAtOnce},
}

// ballot is an Observer with answers that the test sets.
type ballot struct {
	mu     sync.Mutex
	issuer fence.Issuer
	queue  []elector.Candidate
}

// name sets the identity of the leader's candidate.
func (b *ballot) name(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue[0].ID = id
}

// elect sets the issuer and the queue of orders, the leader first.
func (b *ballot) elect(is fence.Issuer, tokens ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.issuer, b.queue = is, nil
	for _, n := range tokens {
		b.queue = append(b.queue, elector.Candidate{
			Token: ofOrders(n).Token, Holder: fmt.Sprintf("elected-%d", n),
		})
	}
}

func (b *ballot) Issuer(context.Context) (fence.Issuer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.issuer, nil
}

func (b *ballot) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	leaders := make([]elector.Candidate, len(rs))
	for i := range rs {
		if len(b.queue) > 0 {
			leaders[i] = b.queue[0]
		}
	}
	return b.issuer, leaders, nil
}

func (b *ballot) Candidates(context.Context, fence.Resource) ([]elector.Candidate, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue, nil
}

func (b *ballot) Watch(
	ctx context.Context, _ fence.Resource, _ func([]elector.Candidate) error,
) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// admission returns an Admission of the store. It may take as long as a clause.
func (k *stage) admission(a marks.Authority) *marks.Admission {
	return &marks.Admission{Store: k.Store, Authority: a, Timeout: patience}
}

// try opens a session and tries to admit it through an Admission.
func (k *stage) try(a *marks.Admission, claims ...fence.Claim) (Conn, error) {
	k.Helper()
	c := k.connect()
	return c, a.Admit(k.ctx, c.Session(), marks.Present(claims...))
}

// in is try, and must succeed.
func (k *stage) in(a *marks.Admission, claims ...fence.Claim) Conn {
	k.Helper()
	c, err := k.try(a, claims...)
	if err != nil {
		k.Fatalf("admit %v: %v", claims, err)
	}
	return c
}

func admissionTakesOver(k *stage) {
	var kinds []marks.EventKind
	a := k.admission(marks.Unverified{Name: here})
	a.Notify = func(e marks.Event) { kinds = append(kinds, e.Kind) }
	old := k.in(a, ofOrders(1))
	if err := a.Ended(k.ctx, marks.Present(ofOrders(1))); err != nil {
		k.Errorf("the leader's session has not ended, but it is told %v", err)
	}
	fresh := k.in(a, ofOrders(2))
	k.ended(old)
	k.works(fresh)
	k.refused(a.Ended(k.ctx, marks.Present(ofOrders(1))), fence.ErrStale)
	_, err := k.try(a, ofOrders(1))
	k.refused(err, fence.ErrStale)

	other := k.admission(marks.Unverified{Name: here}) // it has admitted nobody yet
	k.refused(other.Ended(k.ctx, marks.Present(ofOrders(1))), fence.ErrStale)
	_, err = k.try(other, ofOrders(1))
	k.refused(err, fence.ErrStale)
	k.works(fresh)

	want := []marks.EventKind{marks.Raised, marks.Opened, marks.Raised, marks.Revoked,
		marks.Opened, marks.Refused}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		k.Errorf("events %v, want %v", kinds, want)
	}
}

func admissionAsksCoordinator(k *stage) {
	b := &ballot{}
	a := k.admission(&marks.Elected{Observer: b})
	b.elect(here, 1, 2)
	old := k.in(a, ofOrders(1))
	for _, n := range []int{2, 9} { // a candidate that does not lead yet, and an invented token
		_, err := k.try(a, ofOrders(n))
		k.refused(err, fence.ErrNotLeader)
	}
	if m := k.mark(orders); m.Token != ofOrders(1).Token || m.Holder != "elected-1" {
		k.Errorf("the mark is %+v", m)
	}
	k.works(old)
	b.elect(here, 2)
	k.works(k.in(a, ofOrders(2)))
	k.ended(old)
	_, err := k.try(a, ofOrders(1))
	k.refused(err, fence.ErrStale)
}

// admissionSeesRollback: nobody is admitted below the mark. But a leader below the mark is not told
// that it was deposed, even if a deposed leader has just been refused.
func admissionSeesRollback(k *stage) {
	b := &ballot{}
	a := k.admission(&marks.Elected{Observer: b})
	b.elect(here, 9)
	k.works(k.in(a, ofOrders(9)))
	_, err := k.try(a, ofOrders(5))
	k.refused(err, fence.ErrStale)
	b.elect(here, 3, 4)
	_, err = k.try(a, ofOrders(3))
	k.refused(err, fence.ErrOtherIssuer)
	if err := a.Precheck(k.ctx, marks.Present(ofOrders(3))); err != nil {
		k.Errorf("the leader is refused before the store is asked: %v", err)
	}
	// It is written down: tries count up, and any guard refuses the first one above the mark, too.
	for _, n := range []int{4, 9, 10} {
		b.elect(here, n)
		_, err = k.try(k.admission(&marks.Elected{Observer: b}), ofOrders(n))
		k.refused(err, fence.ErrOtherIssuer)
	}
}

// admissionSeesRollbackAfterARestart: the store's mark is unconfirmed, and that of the process is
// not.
func admissionSeesRollbackAfterARestart(k *stage) {
	for n, by := range map[int]string{5: "a candidate", 9: "another candidate"} {
		b := &ballot{}
		a := k.admission(&marks.Elected{Observer: b})
		b.elect(here, 9)
		b.name("the first")
		k.in(a, ofOrders(9))
		k.restarted()
		b.elect(here, n)
		b.name(by)
		_, err := k.try(a, ofOrders(n))
		k.refused(err, fence.ErrOtherIssuer)
		b.elect(here, 10)
		_, err = k.try(k.admission(&marks.Elected{Observer: b}), ofOrders(10))
		k.refused(err, fence.ErrOtherIssuer)
		k.adopt(fence.Claim{Resource: orders, Issuer: here}, "an operator")
	}
}

// admissionOfAnotherCandidate: the coordinator was restored, and has given the mark's own number to
// another candidate. The session says only the number, so the coordinator says whose it is.
func admissionOfAnotherCandidate(k *stage) {
	b := &ballot{}
	a := k.admission(&marks.Elected{Observer: b})
	b.elect(here, 9)
	b.name("paused")
	old := k.in(a, ofOrders(9))
	b.name("elected after the restore")
	_, err := k.try(a, ofOrders(9))
	k.refused(err, fence.ErrOtherIssuer)
	k.works(old)
	b.name("paused")
	_, err = k.try(k.admission(&marks.Elected{Observer: b}), ofOrders(9))
	k.refused(err, fence.ErrOtherIssuer)
}

// admissionRemembersAHigherMark: the store has gone back without a trace, and another guard,
// without memory and without a coordinator, has confirmed what is left. This guard remembers more,
// and raises the mark again for all.
func admissionRemembersAHigherMark(k *stage) {
	a, other := k.admission(marks.Unverified{}), k.admission(marks.Unverified{})
	before := NewModel()
	a.Store = before // as it was
	err := a.Admit(k.ctx, before.Connect().Session(), marks.Present(ofOrders(7)))
	must.Succeed(k, err)
	a.Store = k.Store
	older := k.in(other, from(elector.Unverified, ofOrders(5)))
	for _, guard := range []*marks.Admission{a, other} {
		_, err = k.try(guard, from(elector.Unverified, ofOrders(5)))
		k.refused(err, fence.ErrStale)
	}
	k.ended(older)
	k.adopt(fence.Claim{Resource: orders, Issuer: elector.Unverified}, "an operator")
	k.works(k.in(a, from(elector.Unverified, ofOrders(6))))
}

// admissionRemembersMoreThanTheCoordinator: a coordinator elsewhere has gone back at the same time
// as the store, and its leader is below a mark that this guard has seen.
func admissionRemembersMoreThanTheCoordinator(k *stage) {
	b := &ballot{}
	a, other := k.admission(marks.Elected{Observer: b}), k.admission(marks.Elected{Observer: b})
	before := NewModel()
	a.Store = before
	b.elect(here, 7)
	must.Succeed(k, a.Admit(k.ctx, before.Connect().Session(), marks.Present(ofOrders(7))))
	a.Store = k.Store
	b.elect(here, 5)
	older := k.in(other, ofOrders(5))
	for _, guard := range []*marks.Admission{a, other} {
		_, err := k.try(guard, ofOrders(5))
		k.refused(err, fence.ErrOtherIssuer)
	}
	k.ended(older)
}

// admissionNeedsTheLeader: the two barriers are independent. The mark is still the older leader's,
// or was set back to its token, and the mark alone admits nobody.
func admissionNeedsTheLeader(k *stage) {
	b := &ballot{}
	a := k.admission(&marks.Elected{Observer: b})
	b.elect(here, 1)
	k.works(k.in(a, ofOrders(1)))
	b.elect(here, 2)
	_, err := k.try(a, ofOrders(1))
	k.refused(err, fence.ErrNotLeader)
	b.elect(here)
	_, err = k.try(a, ofOrders(1))
	k.refused(err, fence.ErrNotLeader)
	b.elect(here, 2)
	k.works(k.in(a, ofOrders(2)))
	k.adopt(ofOrders(1), "an operator by mistake")
	_, err = k.try(a, ofOrders(1))
	k.refused(err, fence.ErrNotLeader)
}

func admissionNeedsAdopt(k *stage) {
	b := &ballot{}
	a := k.admission(&marks.Elected{Observer: b})
	b.elect(here, 5)
	old := k.in(a, ofOrders(5))
	b.elect(elsewhere, 2)
	_, err := k.try(a, ofOrders(2))
	if !errors.Is(err, fence.ErrOtherIssuer) && !errors.Is(err, fence.ErrStale) {
		k.Fatalf("a token of a rebuilt coordinator: %v", err)
	}
	k.works(old)
	k.adopt(fence.Claim{Resource: orders, Issuer: elsewhere}, "alice")
	k.ended(old)
	k.works(k.in(a, ofOrders(2)))
}

// admissionAfterRestart: guard and server are restarted, and there is no coordinator to ask.
func admissionAfterRestart(k *stage) {
	k.in(k.admission(marks.Unverified{Name: here}), ofOrders(5))
	k.restarted()
	if !k.mark(orders).Continued {
		k.Skip("this harness's restart looks like a failover")
	}
	a := k.admission(marks.Unverified{Name: here})
	_, err := k.try(a, ofOrders(4))
	k.refused(err, fence.ErrStale)
	k.works(k.in(a, ofOrders(5)))
	_, err = k.try(k.admission(marks.Unverified{Name: here}), ofOrders(4))
	k.refused(err, fence.ErrStale)
}

func admissionRemembersStale(k *stage) {
	b := &ballot{}
	for _, a := range []*marks.Admission{k.admission(marks.Unverified{Name: here}),
		k.admission(&marks.Elected{Observer: b})} {
		b.elect(here, 5)
		if err := a.Precheck(k.ctx, marks.Present(ofOrders(4))); err != nil {
			k.Errorf("it has admitted nobody, and refuses with %v", err)
		}
		k.in(a, ofOrders(5))
		k.refused(a.Precheck(k.ctx, marks.Present(ofStock(9), ofOrders(4))), fence.ErrStale)
		if err := a.Precheck(k.ctx, marks.Present(ofOrders(5))); err != nil {
			k.Errorf("it refuses the mark's own token with %v", err)
		}
		k.adopt(fence.Claim{Resource: orders, Issuer: here}, "alice")
		b.elect(here, 3)
		if err := a.Precheck(k.ctx, marks.Present(ofOrders(3))); err != nil {
			k.Errorf("after an adoption it refuses with %v", err)
		}
		k.works(k.in(a, ofOrders(3)))
		k.adopt(fence.Claim{Resource: orders, Issuer: here}, "alice")
	}
}

// admissionSeesAdoption: an operator restarts the count under the same issuer while a guard keeps
// running.
func admissionSeesAdoption(k *stage) {
	a := k.admission(marks.Unverified{Name: here})
	k.in(a, ofOrders(9))
	k.adopt(fence.Claim{Resource: orders, Issuer: here}, "alice")
	k.works(k.in(a, ofOrders(3)))
	if err := a.Ended(k.ctx, marks.Present(ofOrders(3))); err != nil {
		k.Errorf("the leader's session has not ended, but it is told %v", err)
	}
	k.works(k.in(a, ofOrders(4)))
	_, err := k.try(a, ofOrders(3))
	k.refused(err, fence.ErrStale)
}

func admissionsAtOnce(k *stage) {
	const guards, terms = 3, 6
	var all sync.WaitGroup
	for g := range guards {
		a := k.admission(marks.Unverified{Name: here})
		for n := 1; n <= terms; n++ {
			c := k.connect()
			all.Go(func() { k.compete(a, c, ofOrders(n), (n+g)%2 == 0) })
		}
	}
	all.Wait()
	written := k.Written(k.TB)
	k.inOrder(written)
	if top := fmt.Sprint([]fence.Claim{ofOrders(terms)}); len(written) == 0 ||
		written[len(written)-1] != top {
		k.Errorf("of %d writes the last is not the newest leader's", len(written))
	}
}

// compete is one leader: it is admitted or stale, and then writes as long as it can.
func (k *stage) compete(a *marks.Admission, c Conn, claim fence.Claim, leaves bool) {
	claims := []fence.Claim{claim}
	switch err := a.Admit(k.ctx, c.Session(), marks.Present(claims...)); {
	case errors.Is(err, fence.ErrStale):
		return
	case err != nil:
		k.Errorf("admit %s: %v", claim, err)
		return
	}
	for range 20 {
		if err := c.Write(k.ctx, fmt.Sprint(claims)); err != nil {
			return
		}
	}
	if leaves {
		c.Close()
		a.Release(k.ctx, c.Session(), marks.Present(claims...))
	}
}
