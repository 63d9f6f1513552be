package redismarks

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Between the end of all connections and the new marker the state may be lost again, with the
// record of a session admitted in between. The proof of the first endProof must not count for the
// second loss.
func TestASecondLossVoidsTheProofOfTheFirst(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	s, err := Open(t.Context(), server.URL(), Options{Coordinated: true})
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	raise := func(e endProof, basis string) string {
		r, err := s.decide(t.Context(), raiseScript, []string{key("orders")}, "orders", "5",
			string(elector.Unverified), "", "", basis, e.nonce, e.epoch)
		must.Succeed(t, err)
		return r.verdict
	}
	prove := func() (endProof, string) {
		e, seen, err := s.announce(t.Context(), "orders")
		if err == nil {
			err = s.endAll(t.Context(), e, marks.SessionID{})
		}
		must.Succeed(t, err)
		return e, seen.basis
	}
	first, basis := prove()
	must.Succeed(t, s.db.FlushAll(t.Context()).Err())
	if v := raise(first, basis); v != "lost" {
		t.Errorf("with the old proof: %s", v)
	}
	if v := raise(endProof{}, basis); v != "lost" {
		t.Errorf("without a proof: %s", v)
	}
	second, basis := prove()
	if v := raise(second, "another "+basis); v != "changed" {
		t.Errorf("with a proof of another server: %s", v)
	}
	if v := raise(second, basis); v != "raised" {
		t.Errorf("with the proof: %s", v)
	}
	if v := raise(second, basis); v != "changed" {
		t.Errorf("with a used proof: %s", v)
	}
}

// A guard has ended all connections, and then a raise in the database that SWAPDB brought admits a
// session. When the first database is back, the guard's proof must not count there.
func TestAProofDoesNotOutliveARaiseInAnotherDatabase(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	s, err := Open(t.Context(), server.URL(), Options{Coordinated: true})
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	swap := func() {
		must.Succeed(t, s.db.Do(t.Context(), "SWAPDB", 0, 1).Err())
	}
	proof, seen, err := s.announce(t.Context(), "orders")
	must.Succeed(t, err)
	swap()
	newer := fence.Claim{Resource: "orders", Token: 6, Issuer: elector.Unverified}
	confirm := func(context.Context, marks.Mark) (fence.Claim, error) { return newer, nil }
	_, err = s.Raise(t.Context(), marks.SessionID{}, newer, confirm)
	must.Succeed(t, err)
	swap()
	r, err := s.decide(t.Context(), raiseScript, []string{key("orders")}, "orders", "5",
		string(elector.Unverified), "", "", seen.basis, proof.nonce, proof.epoch)
	if err != nil || r.verdict != "lost" {
		t.Errorf("the older leader's raise: %s, %v", r.verdict, err)
	}
}
