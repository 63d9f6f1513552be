package marks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
)

// unhurried is a store that revokes only when it is told to, and agrees that quiet sessions are
// idle.
type unhurried struct {
	*markstest.Model
	revoke chan struct{}
}

func (u *unhurried) Revoke(ctx context.Context, s marks.SessionID, c fence.Claim) (int, error) {
	select {
	case <-u.revoke:
		return u.Model.Revoke(ctx, s, c)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (u *unhurried) Release(
	_ context.Context, all ...marks.Departed,
) (leaving []marks.SessionID, err error) {
	for _, d := range all {
		leaving = append(leaving, d.Session)
	}
	return leaving, nil
}

// atRest is a relayed session that is at rest until it is ended.
type atRest struct {
	once  sync.Once
	ended chan struct{}
}

func (*atRest) Quiet() (marks.Proof, bool) {
	answered := make(chan struct{})
	close(answered)
	return marks.Proof{Statement: "/* at rest */", Answered: answered}, true
}
func (r *atRest) End() { r.once.Do(func() { close(r.ended) }) }

// A guard that follows an election raises marks without a newcomer.
func TestARaiseWithoutANewcomerEndsSessionsAtRestWithoutTheStore(t *testing.T) {
	s := &unhurried{markstest.NewModel(), make(chan struct{})}
	a := &marks.Admission{Store: s, Authority: marks.Unverified{}, Timeout: time.Minute}
	conn := s.Connect()
	if err := a.Admit(t.Context(), conn.Session(), claimed(5)); err != nil {
		t.Fatal(err)
	}
	relayed := &atRest{ended: make(chan struct{})}
	a.Relaying(conn.Session(), claimed(5), relayed)
	raised := make(chan error, 1)
	go func() { raised <- a.Raise(t.Context(), claimed(6)[0].Under("unverified")) }()
	select {
	case <-relayed.ended:
	case <-time.After(30 * time.Second):
		t.Error("the session goes on until the store has ended it")
	}
	close(s.revoke)
	if err := <-raised; err != nil {
		t.Error(err)
	}
}
