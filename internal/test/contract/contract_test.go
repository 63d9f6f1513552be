package contract

import (
	"strings"
	"sync"
	"testing"
)

// number is a stage: what a clause works with.
type number struct {
	testing.TB
	n int
}

var clauses = []Clause[number]{
	{Name: "a number is even", Holds: func(s number) {
		if s.n%2 != 0 {
			s.Errorf("%d is odd", s.n)
		}
	}},
	{Name: "a number is small", Holds: func(s number) {
		if s.n > 10 {
			s.Fatalf("%d is large", s.n)
		}
	}},
	{Name: "a number is positive", Holds: func(s number) {
		if s.n == 0 {
			s.Skip("zero is neither")
		}
	}},
}

func of(n int) func(testing.TB) number {
	return func(t testing.TB) number { return number{t, n} }
}

func TestAFlawIsFoundByItsClauseForTheRightReason(t *testing.T) {
	for _, c := range []struct {
		name   string
		flaw   Flaw[number]
		answer string // of Found; "" if it is found
	}{
		{"found", Flaw[number]{Clause: "even", Says: "odd", Open: of(3)}, ""},
		{"right", Flaw[number]{
			Clause: "even", Says: "odd", Open: of(4),
		}, `"a number is even" does not find it`},
		{"another reason", Flaw[number]{
			Clause: "small", Says: "odd", Open: of(11),
		}, `should say "odd", and says: 11 is large`},
		{"no clause", Flaw[number]{Clause: "prime", Open: of(4)}, `there are 0 clauses "prime"`},
		{"two clauses", Flaw[number]{Clause: "a number", Open: of(4)}, `there are 3 clauses`},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, failed := FailureOf(t, func(t testing.TB) { c.flaw.Found(t, clauses) })
			if failed != (c.answer != "") || !strings.Contains(answer, c.answer) {
				t.Errorf("the answer is %q, not %q", answer, c.answer)
			}
		})
	}
}

func TestAClauseThatSkipsItselfSkipsTheTest(t *testing.T) {
	var skipped bool
	t.Run("", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Flaw[number]{Clause: "positive", Open: of(0)}.Found(t, clauses)
	})
	if !skipped {
		t.Error("it was not skipped")
	}
}

func TestAClauseWithoutAFlawIsReported(t *testing.T) {
	answer, _ := FailureOf(t, func(t testing.TB) {
		EachFinds(t, clauses, []string{"a number is even", "a number is positive"})
	})
	if !strings.Contains(answer, "a number is small") {
		t.Errorf("the answer is %q", answer)
	}
}

func TestTheFirstFailureEndsTheCheck(t *testing.T) {
	answer, failed := FailureOf(t, func(t testing.TB) {
		var all sync.WaitGroup
		all.Go(func() { t.Error("first") })
		<-t.Context().Done()
		all.Wait()
		t.Error("second")
	})
	if !failed || answer != "first" {
		t.Errorf("the failure is %q", answer)
	}
}
