package redismarks_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Databases are swapped, flushed and copied at random between raises, admissions and commands. The
// model is the token that was raised last: wherever its mark is now, no other token writes, and no
// session under another one is left.
func TestRandomSwapsLetNoOlderTokenWrite(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
		h := &swaps{t: t, b: b, rnd: rand.New(rand.NewPCG(seed, 1))}
		h.guard = openWith(t, b.server, redismarks.Options{Coordinated: true})
		for h.raise(); len(h.log) < 400; {
			h.step()
		}
		if h.ran < 10 || h.refused < 10 || len(h.admitted) < 10 {
			t.Errorf("seed %d proves little: %d commands ran, %d were refused, %d sessions",
				seed, h.ran, h.refused, len(h.admitted))
		}
		if t.Failed() {
			t.Fatalf("seed %d: %q", seed, h.log)
		}
	}
}

// swaps is one history.
type swaps struct {
	t      *testing.T
	rnd    *rand.Rand
	b      *bench // without a coordinator
	guard  *bench // with one
	latest fence.Token
	log    []string

	admitted     []admitted
	ran, refused int // commands
}

type admitted struct {
	*conn
	token fence.Token
}

func (h *swaps) step() {
	i, j, key := h.rnd.IntN(4), h.rnd.IntN(4), ownKeys[h.rnd.IntN(len(ownKeys))]
	token := 1 + fence.Token(h.rnd.Int64N(int64(h.latest)))
	switch h.rnd.IntN(12) {
	case 0, 1, 2:
		h.at(0, "SWAPDB", i, j)
	case 3:
		h.at(i, "FLUSHDB")
	case 4:
		h.log = append(h.log, "RESETSTAT")
		h.b.do(h.t, "CONFIG", "RESETSTAT")
	case 5:
		h.copyTo(i, (i+1+j%3)%4, ownKeys...)
	case 6:
		h.copyTo(i, (i+1+j%3)%4, key)
	case 7:
		h.raise()
	case 8:
		h.admit()
	case 9:
		h.admitWithoutCoordinator(token)
	default:
		_ = h.run(token)
	}
}

// at runs a command in a database.
func (h *swaps) at(database int, command ...any) {
	h.log = append(h.log, fmt.Sprint(database, command))
	h.b.in(h.t, database, command...)
}

func (h *swaps) copyTo(from, to int, keys ...string) {
	for _, key := range keys {
		h.at(from, "COPY", key, key, "DB", to, "REPLACE")
	}
}

func (h *swaps) raise() {
	h.latest++
	h.log = append(h.log, "raise "+h.latest.String())
	h.guard.raise(h.t, claim(h.latest))
	if err := h.run(h.latest); err != nil {
		h.t.Errorf("the latest token, %s: %v", h.latest, err)
	}
}

func (h *swaps) run(token fence.Token) error {
	h.log = append(h.log, "run "+token.String())
	db := h.b.client(h.t, nil)
	defer db.Close()
	err := put(h.t, db, claim(token), token.String())
	if err != nil {
		h.refused++
		return err
	}
	if h.ran++; token != h.latest {
		h.t.Errorf("%s has written after %s was raised", token, h.latest)
	}
	return nil
}

// admit admits a session of the latest token. No session under another one may be left.
func (h *swaps) admit() {
	h.log = append(h.log, "admit "+h.latest.String())
	h.admitted = append(h.admitted, admitted{h.guard.admit(h.t, trusting{}, h.latest), h.latest})
	for _, c := range h.admitted {
		if err := c.Write(h.t.Context(), "deposed"); err == nil && c.token != h.latest {
			h.t.Errorf("a session under %s has written after %s was admitted", c.token, h.latest)
		}
	}
}

func (h *swaps) admitWithoutCoordinator(token fence.Token) {
	h.log = append(h.log, "admit without a coordinator "+token.String())
	c := h.b.session(h.t)
	defer c.Close()
	err := h.b.admission(marks.Unverified{}).Admit(h.t.Context(), c.s, marks.Present(claim(token)))
	if err == nil && token != h.latest {
		h.t.Errorf("%s was admitted after %s was raised", token, h.latest)
	}
}
