package redis

import (
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// Between the end of all connections and the new marker the state may be lost once more, and a session admitted in
// between with it: the proof of the first ending must not count for the second loss.
func TestASecondLossVoidsTheProofOfTheFirst(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	s, err := Open(t.Context(), server.URL(), Options{Coordinated: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	raise := func(e ending) string {
		r, err := s.run(t.Context(), raiseScript, []string{key("orders")}, "orders", "5", string(fence.Unverified), "", e.nonce, e.run, e.epoch)
		if err != nil {
			t.Fatal(err)
		}
		return r.verdict
	}
	first, err := s.endAll(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if v := raise(first); v != "lost" {
		t.Errorf("with the void proof: %s", v)
	}
	if v := raise(ending{}); v != "lost" {
		t.Errorf("without a proof: %s", v)
	}
	second, err := s.endAll(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := second
	elsewhere.run = "another"
	if v := raise(elsewhere); v != "lost" {
		t.Errorf("with a proof of another run: %s", v)
	}
	if v := raise(second); v != "raised" {
		t.Errorf("with the proof: %s", v)
	}
	if v := raise(second); v != "raised" {
		t.Errorf("repeated: %s", v)
	}
}

func TestARefusalIsOneLineAndComesBackAsItself(t *testing.T) {
	for reason, code := range codes {
		r := &fence.Refusal{Reason: reason, Message: "what\r\n-ERR forged", Detail: "why", Hint: "what to do"}
		line := Line(r)
		if want := code + " what  -ERR forged — why (what to do)"; line != want {
			t.Errorf("got %q, want %q", line, want)
		}
	}
}
