package check_test

import (
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

func TestAMarkBelowAnAcceptedTokenIsAViolation(t *testing.T) {
	for mark, want := range map[fence.Token]check.Verdict{
		30: check.Valid, 31: check.Valid, 20: check.Invalid,
	} {
		b := goodRun(parts{ending: func(b *builder) {
			b.wait(1)
			b.add(history.Event{Kind: history.Mark, Store: rd, Token: mark})
		}})
		r := judge(t, b.finish())
		wantVerdict(t, r, want)
		if want == check.Invalid {
			wantInvariants(t, r, "I1")
		}
	}
}
