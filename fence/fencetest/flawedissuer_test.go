package fencetest

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// flawedRenewer is a Client with a RenewIssuer that is wrong on purpose.
type flawedRenewer struct {
	*Client
	wrong func(f *flawedRenewer, ctx context.Context) (fence.Issuer, error)
	own   fence.Issuer // replaces the coordinator's issuer, unless ""
}

func (f *flawedRenewer) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	return f.wrong(f, ctx)
}

func (f *flawedRenewer) Issuer(ctx context.Context) (fence.Issuer, error) {
	issuer, err := f.Client.Issuer(ctx)
	if f.own != "" {
		issuer = f.own
	}
	return issuer, err
}

func (f *flawedRenewer) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []fence.Candidate, error) {
	issuer, leaders, err := f.Client.Leaders(ctx, rs...)
	if f.own != "" {
		issuer = f.own
	}
	return issuer, leaders, err
}

// renewalFlaws are ways to renew wrongly, with words of the clause that must find each of them.
var renewalFlaws = []struct {
	name, finds string
	wrong       func(f *flawedRenewer, ctx context.Context) (fence.Issuer, error)
}{
	{"renews nothing", "a renewed issuer", func(
		f *flawedRenewer, ctx context.Context,
	) (fence.Issuer, error) {
		return f.Client.Issuer(ctx)
	}},
	{"returns the earlier issuer", "a renewed issuer",
		func(f *flawedRenewer, ctx context.Context) (fence.Issuer, error) {
			before, _ := f.Client.Issuer(ctx)
			_, err := f.Client.RenewIssuer(ctx)
			return before, err
		}},
	{"renews for itself alone", "a renewed issuer",
		func(f *flawedRenewer, _ context.Context) (fence.Issuer, error) {
			f.own = newIssuer()
			return f.own, nil
		}},
	{"comes back to an earlier issuer", "a renewed issuer",
		func(f *flawedRenewer, _ context.Context) (fence.Issuer, error) {
			f.m.mu.Lock()
			defer f.m.mu.Unlock()
			if f.m.issuer = "memory:a"; f.m.counter%2 == 0 {
				f.m.issuer = "memory:b"
			}
			return f.m.issuer, nil
		}},
	{"renews when it is closed", "a closed client renews",
		func(f *flawedRenewer, _ context.Context) (fence.Issuer, error) {
			f.m.mu.Lock()
			defer f.m.mu.Unlock()
			f.m.issuer = newIssuer()
			return f.m.issuer, nil
		}},
	{"renews when it is closed, and returns an error", "a closed client renews",
		func(f *flawedRenewer, ctx context.Context) (fence.Issuer, error) {
			f.m.mu.Lock()
			f.m.issuer = newIssuer()
			f.m.mu.Unlock()
			return f.Client.Issuer(ctx)
		}},
}

func TestTheContractFindsFlawsOfARenewal(t *testing.T) {
	right := func(f *flawedRenewer, ctx context.Context) (fence.Issuer, error) {
		return f.Client.RenewIssuer(ctx)
	}
	for _, flaw := range renewalFlaws {
		t.Run(flaw.name, func(t *testing.T) {
			t.Parallel()
			c := clause(t, flaw.finds)
			if fails(t, func(w *witness) { c.run(w, flawedRenewal(right)) }) {
				t.Errorf("%q fails without a flaw", c.name)
			}
			if !fails(t, func(w *witness) { c.run(w, flawedRenewal(flaw.wrong)) }) {
				t.Errorf("not found by %q", c.name)
			}
		})
	}
}

func flawedRenewal(wrong func(*flawedRenewer, context.Context) (fence.Issuer, error)) Harness {
	const timeout = 6 * time.Second
	m := NewMemory(timeout)
	return Harness{
		Open:           func(testing.TB) fence.Coordinator { return m.Open() },
		SessionTimeout: timeout,
		Alone: func(testing.TB) (c, operator fence.Coordinator) {
			m := NewMemory(timeout)
			return &flawedRenewer{Client: m.Open(), wrong: wrong},
				&flawedRenewer{Client: m.Open(), wrong: wrong}
		},
	}
}
