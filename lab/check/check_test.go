package check_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

func TestWritesMayBeLostOnlyRightBeforeTheFault(t *testing.T) {
	b := goodRun(parts{healed: func(b *builder) {
		b.wait(5 * time.Second)
		b.fault("kill redis #2", "redis", history.Begin)
		b.fault("kill redis #2", "redis", history.Over)
		b.writes("worker-2", 20, 1)
	}})
	b.header.Expect.MayLose = history.Duration(time.Second)
	first := slices.IndexFunc(b.held, func(e history.Event) bool { return e.Store == rd })
	b.held = slices.Delete(b.held, first, first+1)
	r := judge(t, b.finish())
	wantInvariants(t, r, "I3")
	if r.Figures.Lost != 1 {
		t.Errorf("%d lost, want 1", r.Figures.Lost)
	}
}

func TestSwappedTokensMakeARunInvalid(t *testing.T) {
	b := goodRun(parts{})
	of := func(token fence.Token) int {
		return slices.IndexFunc(b.held, func(e history.Event) bool {
			return e.Store == pg && e.Token == token
		})
	}
	first, second := of(10), of(20)
	b.held[first].Token, b.held[second].Token = b.held[second].Token, b.held[first].Token
	b.held[first].Carried, b.held[second].Carried = b.held[second].Carried, b.held[first].Carried
	r := judge(t, b.finish())
	wantInvariants(t, r, "I1", "I3")
	if r.Figures.StaleAccepted == 0 {
		t.Error("nothing counts as accepted under a stale token")
	}
}

func TestProcessesKilledAtFailpointsAreCountedOnce(t *testing.T) {
	b := goodRun(parts{before: func(b *builder) {
		for _, text := range []string{
			"failpoint after effect", "ended: exit code 137", "ended: exit code 137",
			"ended: exit code 0",
		} {
			b.add(history.Event{Kind: history.Note, Process: "worker-3", Text: text})
		}
	}})
	b.header.Expect.Kills = 2
	r := judge(t, b.finish())
	wantVerdict(t, r, check.Valid)
	if r.Figures.Kills != 2 {
		t.Errorf("%d killed, want one at a failpoint and one by itself", r.Figures.Kills)
	}
}

func TestFalseRefusalsAndKillsAreCounted(t *testing.T) {
	b := goodRun(parts{before: func(b *builder) {
		b.write("worker-1", pg, 10, history.Stale)
		b.fault("kill guard-1 #7", "guard-1", history.Begin)
		b.fault("kill guard-1 #7", "guard-1", history.Over)
		b.fault("kill zookeeper majority #8", "zookeeper-1, zookeeper-2", history.Begin)
		b.fault("kill zookeeper majority #8", "zookeeper-1, zookeeper-2", history.Over)
	}})
	r := judge(t, b.finish())
	wantInvariants(t, r, "model")
	if r.Figures.FalseRefusals != 1 || r.Figures.Kills != 3 {
		t.Errorf("figures: %+v", r.Figures)
	}
}

func TestDoubtsDoNotExcuseAViolation(t *testing.T) {
	b := goodRun(parts{})
	b.held[0].Token, b.held[len(b.held)-1].Token = b.held[len(b.held)-1].Token, b.held[0].Token
	all := b.finish()
	r := judge(t, all[:len(all)-1])
	wantVerdict(t, r, check.Invalid)
	if len(r.Doubts) == 0 {
		t.Error("the missing end raised no doubt")
	}
}

func TestNoWriteIsMissingIfTheDatabasesWereNotRead(t *testing.T) {
	b := goodRun(parts{})
	b.held = b.held[1:]
	all := b.finish()
	wantVerdict(t, judge(t, all), check.Invalid)
	wantVerdict(t, judge(t, all[:len(all)-1]), check.Unknown)
}

func TestTheListOfProblemsIsOrderedAndBounded(t *testing.T) {
	b := goodRun(parts{before: func(b *builder) { b.writes("worker-1", 10, 50) }})
	b.held = nil
	r := judge(t, b.finish())
	if n := len(r.Problems); n != 21 {
		t.Fatalf("%d problems are listed, want 20 and the rest in one%s", n, findings(r))
	}
	byTime := func(a, b check.Problem) int { return int(a.At - b.At) }
	if !slices.IsSortedFunc(r.Problems[:20], byTime) {
		t.Error("the problems are not in order")
	}
	if last := r.Problems[20].Text; !strings.Contains(last, "118 more") {
		t.Errorf("the rest is %q", last)
	}
}

func TestAnUnguardedRunIsJudgedToo(t *testing.T) {
	b := goodRun(parts{healed: func(b *builder) { b.write("worker-1", pg, 10, history.OK) }})
	b.header.Guarded = false
	wantInvariants(t, judge(t, b.finish()), "I1", "I2", "model")
}

func TestATimeoutIsADoubt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	r := check.Check(ctx, goodRun(parts{}).finish())
	wantVerdict(t, r, check.Unknown)
}

// longRun has about twenty thousand operations, fifty leaders, and answers that never came.
func longRun() *builder {
	b := newBuilder()
	b.header.Expect = history.Expect{}
	for i := range fence.Token(50) {
		b.takesOver("worker-1", 100+i, 200)
		b.commits(b.invoke("worker-1", pg, history.Write, 100+i))
		b.invoke("worker-1", rd, history.Write, 100+i)
		b.fault("pause leader", "worker-1", history.Begin)
		b.invoke("worker-2", rd, history.Raise, 99+i)
		b.write("worker-2", pg, 99+i, history.Stale)
		b.fault("pause leader", "worker-1", history.Over)
	}
	return b
}

func TestALongHistoryIsCheckedInSeconds(t *testing.T) {
	for want, change := range map[check.Verdict]func(*builder){
		check.Valid:   func(*builder) {},
		check.Invalid: func(b *builder) { b.write("worker-2", rd, 100, history.OK) },
	} {
		b := longRun()
		change(b)
		began := time.Now()
		r := judge(t, b.finish())
		took := time.Since(began)
		t.Logf("%s: %d operations took %s", want, b.ops, took)
		if took > 2*time.Minute {
			t.Errorf("%d operations took %s", b.ops, took)
		}
		wantVerdict(t, r, want)
	}
}

func TestVisualizeWritesAPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.html")
	must.Succeed(t, check.Visualize(goodRun(parts{}).finish(), path))
	page, err := os.ReadFile(path)
	must.Succeed(t, err)
	for _, want := range []string{"pause leader #1", "raise(20) ok", "write(10) stale", "mark 30"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if err := check.Visualize(nil, path); err == nil {
		t.Error("an empty history was drawn")
	}
}
