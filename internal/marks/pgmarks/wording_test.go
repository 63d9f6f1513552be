package pgmarks

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// The functions of the schema refuse in the words of internal/refusal. Only the end of the detail
// is their own: it says what became of the transaction.
func TestTransactionsAreRefusedInTheWordsOfTheGuard(t *testing.T) {
	t.Parallel()
	d := led(t)
	old := d.next()
	old.Candidate = "a"
	d.lead(t, old)
	c := d.next()
	c.Candidate = "b"
	d.lead(t, c)
	above, foreign, twin := d.next(), c, c
	foreign.Issuer, twin.Candidate = "zk:b", "another"
	marks, err := d.s.Marks(t.Context(), c.Resource)
	if err != nil || len(marks) != 1 {
		t.Fatalf("%v, %v", marks, err)
	}
	m := marks[0]

	said := func(what string, c fence.Claim, want *fence.Refusal) {
		t.Helper()
		var got *fence.Refusal
		if err := try(t, d.connect(t, "app"), c, pgx.ReadCommitted); !errors.As(err, &got) {
			t.Errorf("%s: got %v", what, err)
			return
		}
		why, end, _ := strings.Cut(got.Detail, "; ")
		wantWhy, _, _ := strings.Cut(want.Detail, "; ")
		if want.Detail != "" && why != wantWhy || !strings.HasSuffix(end, "nothing of this transaction "+
			"was written") {
			t.Errorf("%s: the detail is %q, want %q", what, got.Detail, want.Detail)
		}
		if got.Reason != want.Reason || got.Message != want.Message || got.Hint != want.Hint {
			t.Errorf("%s: got %q (%s), want %q (%s)", what, got.Message, got.Hint, want.Message, want.Hint)
		}
	}
	said("an older token", old, refusal.Stale(old, c.Token, m.Holder, m.Raised))
	said("another issuer", foreign, refusal.OtherIssuer(foreign, c.Token, c.Issuer))
	said("a newer token", above, refusal.Unraised(above, c.Token, ""))
	again := refusal.RolledBack(twin, c.Token)
	again.Detail = "" // a transaction cannot write it down, so later ones may still enter
	said("the token of another candidate", twin, again)
	if err := d.authorizer(t).Authorize(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	said("a role that may not", c, refusal.NotAuthorized(c, "app"))
}
