package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

const long = time.Minute // a session timeout that no test waits for

// win campaigns with a limit.
func win(t *testing.T, c *Coordinator, r fence.Resource, holder string) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	term, err := c.Campaign(ctx, r, holder)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// stand starts a campaign that ends with the test, and waits until its candidate is listed.
func stand(
	t *testing.T, c *Coordinator, r fence.Resource, holder string,
) (won <-chan *fence.Term) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	winner, done := make(chan *fence.Term, 1), make(chan struct{})
	go func() {
		defer close(done)
		if term, err := c.Campaign(ctx, r, holder); err == nil {
			winner <- term
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, holder+" is listed", func() bool {
		queue, err := c.Candidates(t.Context(), r)
		for _, one := range queue {
			if one.Holder == holder {
				return true
			}
		}
		return err != nil
	})
	return winner
}

// next waits for the winner.
func next(t *testing.T, won <-chan *fence.Term) *fence.Term {
	t.Helper()
	select {
	case term := <-won:
		return term
	case <-time.After(60 * time.Second):
		t.Fatal("nobody leads")
		return nil
	}
}

// ends waits until a term is lost, and checks why.
func ends(t *testing.T, term *fence.Term, cause error) {
	t.Helper()
	select {
	case <-term.Context().Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("%v is %v", term.Claim(), term.State())
	}
	if got := context.Cause(term.Context()); !errors.Is(got, cause) {
		t.Errorf("%v was lost with %v, not %v", term.Claim(), got, cause)
	}
}

// queued waits until an election has this many candidates.
func queued(t *testing.T, c *Coordinator, r fence.Resource, want int) []fence.Candidate {
	t.Helper()
	var last []fence.Candidate
	eventually(t, fmt.Sprintf("%d candidates", want), func() bool {
		var err error
		last, err = c.Candidates(t.Context(), r)
		return err == nil && len(last) == want
	})
	return last
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to this: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks, not for an event
	}
}

func wantSetupError(t *testing.T, err error, says ...string) {
	t.Helper()
	var setup *fence.SetupError
	if !errors.As(err, &setup) {
		t.Fatalf("%v is no SetupError", err)
	}
	for _, s := range says {
		if !strings.Contains(setup.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, setup)
		}
	}
}
