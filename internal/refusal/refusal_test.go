package refusal

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Reasons travel as codes and come back as themselves.
func TestEveryReasonHasItsCodes(t *testing.T) {
	for r := range Reasons {
		word := Word(r)
		if word == "" || OfWord(word) != r {
			t.Errorf("%s: word %q is that of %s", r, word, OfWord(word))
		}
		state := SQLState(r)
		if back := OfSQLState(state); back != r &&
			(r != fence.ErrNotAllowed || back != fence.ErrMalformed) {
			t.Errorf("%s: SQLSTATE %q is that of %s", r, state, back)
		}
	}
	for _, code := range []string{"", "RF000", CheckpointConflict, "42501"} {
		if r := OfSQLState(code); r != "" {
			t.Errorf("%q is taken for %s", code, r)
		}
	}
	if OfWord("ERR") != "" || OfWord("") != "" {
		t.Error("a word of Redis itself is taken for a refusal")
	}
}

func TestAClaimComesOutOfEachCarrierAsItWentIn(t *testing.T) {
	c := fence.Claim{Resource: "orders", Token: 45}
	if got := StartupOption("-c work_mem=1", c); got != "-c work_mem=1 -c fence.orders=45" {
		t.Errorf("options: %q", got)
	}
	for _, name := range []string{"fence.orders", "FENCE.Orders", "fence.ORDERS"} {
		if resource, ok := OfSetting(name); !ok || resource != "orders" {
			t.Errorf("setting %q: %q, %v", name, resource, ok)
		}
	}
	if _, ok := OfSetting("application_name"); ok {
		t.Error("a setting of Postgres is taken for a claim")
	}
	for _, name := range []string{ClientName(c), "fence.orders=45"} {
		resource, token, ok, err := OfClientName(name)
		r, tok, perr := ParseClaim(resource, token)
		if !ok || err != nil || perr != nil || r != c.Resource || tok != c.Token {
			t.Errorf("client name %q: %v, %v, %v, %v, %v", name, r, tok, ok, err, perr)
		}
	}
	if _, _, ok, err := OfClientName("fence.orders"); !ok || !errors.Is(err, ErrNoClaim) {
		t.Errorf("a name without a token: %v, %v", ok, err)
	}
	if _, _, ok, err := OfClientName("worker-1"); ok || err != nil {
		t.Errorf("any other name: %v, %v", ok, err)
	}
}

func TestARefusalIsOneLineInRedis(t *testing.T) {
	for reason := range Reasons {
		r := &fence.Refusal{
			Reason: reason, Message: "what\r\n-ERR forged", Detail: "why", Hint: "what to do",
		}
		want := Word(reason) + " what  -ERR forged — why (what to do)"
		if line := Line(r); line != want {
			t.Errorf("got %q, want %q", line, want)
		}
	}
}

func TestFieldsCarryClaimAndMark(t *testing.T) {
	const big = 1<<62 + 1 // a float would lose the last digit
	c := fence.Claim{Resource: "orders", Token: big}
	f := FieldsOf(Stale(c, big+1, "worker-2", time.Now()))
	if f != (Fields{"ringfence", "orders", "4611686018427387905", "4611686018427387906"}) {
		t.Errorf("fields: %+v", f)
	}

	own := fence.Claim{Resource: "orders", Token: big, Issuer: "zookeeper:a", Holder: "worker-1"}
	r := &fence.Refusal{Claim: own}
	if f.Fill(r); r.Claim != own || r.Mark != big+1 {
		t.Errorf("of the claim that was presented: %+v", r)
	}
	r = &fence.Refusal{Claim: fence.Claim{Resource: "stock", Token: 3, Issuer: "zookeeper:a"}}
	if f.Fill(r); r.Claim != c {
		t.Errorf("of another claim of the same session: %+v", r.Claim)
	}
	r = &fence.Refusal{Claim: own}
	if (Fields{
		Table: "customers", Column: "name", Constraint: "5",
	}).Fill(r); r.Claim != own || r.Mark != 0 {
		t.Errorf("an error about a table is taken for a refusal: %+v", r)
	}
	if f := FieldsOf(NoOption()); f != (Fields{Schema: "ringfence"}) {
		t.Errorf("fields of a refusal without a claim: %+v", f)
	}
}

func TestUnclaimedRemovesClaimsOnly(t *testing.T) {
	for options, want := range map[string]string{
		"-c fence.orders=5":                          "",
		"-cfence.orders=5 --FENCE.Orders=5":          "",
		"-c fence.orders=5 -c work_mem=5MB":          "-c work_mem=5MB",
		`-c a.b=x\ -c\ fence.orders=5 -c fence.a=1`:  `-c a.b=x\ -c\ fence.orders=5`,
		"--search_path=fence.orders  -c x.fence.a=1": "--search_path=fence.orders  -c x.fence.a=1",
		"-c fence.other=5 -c fence.orders=6":         "-c fence.other=5",
		"-c -c fence.orders=5":                       "-c -c fence.orders=5", // no server takes this
		"-c":                                         "-c",
	} {
		got := Unclaimed(options, func(resource string) bool { return resource != "other" })
		if got != want {
			t.Errorf("%q: %q, want %q", options, got, want)
		}
	}
}
