package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// taskStep is one attempt of a step that succeeds: its effect, its checkpoint, and the answer.
func (b *builder) taskStep(process string, t fence.Token, n int) {
	e := b.attempt(process, t, n)
	b.effect(t, n)
	b.publish(t, n)
	b.answer(e, history.OK, "")
}

// key returns the key of the n-th step: each round has a synchronous and an asynchronous one.
func key(n int) string {
	return fmt.Sprintf("ledger/1/%d/%s", n/2, []string{"post", "announce"}[n%2])
}

func (b *builder) attempt(process string, t fence.Token, n int) history.Event {
	b.ops++
	e := history.Event{
		Kind: history.Invoke, Process: process + "/task", Op: fmt.Sprintf("op-%d", b.ops),
		Do: history.Step, Store: pg,
		Token: t, Key: key(n),
	}
	b.add(e)
	return e
}

func (b *builder) effect(t fence.Token, n int) {
	e := history.Event{Kind: history.Effect, Key: key(n), Store: pg, Token: t, Sync: true}
	if n%2 == 1 {
		e.Store, e.Sync = "world", false
	}
	b.place[e.Store]++
	e.Place = b.place[e.Store]
	b.held = append(b.held, e)
}

func (b *builder) publish(t fence.Token, n int) {
	b.place[pg]++
	b.held = append(b.held, history.Event{
		Kind: history.Publish, Store: pg, Task: "ledger", Version: int64(n) + 2, Run: 1,
		Round: int64(n+1) / 2, Step: (n + 1) % 2,
		Token: t, Place: b.place[pg],
	})
}

// leads adds the election of a task's leader.
func (b *builder) leads(process string, t fence.Token) {
	b.term(process, history.Won, t)
	b.answer(b.invoke(process, pg, history.Raise, t), history.OK, "")
	b.term(process, history.Ready, t)
}

// taskRun is a run of a task whose leader is killed after ten steps; the next one does ten more.
func taskRun(p parts) *builder {
	b := newBuilder()
	b.header.Expect = history.Expect{Changes: 1, Stale: 1, Before: 5, Steps: 20}
	b.leads("worker-1", 10)
	for n := range 10 {
		b.taskStep("worker-1", 10, n)
	}
	p.do(p.before, b)
	b.fault("kill leader #1", "worker-1", history.Begin)
	b.leads("worker-2", 20)
	p.do(p.during, b)
	for n := range 10 {
		b.taskStep("worker-2", 20, n+10)
	}
	b.fault("kill leader #1", "worker-1", history.Over)
	b.answer(b.attempt("worker-1", 10, 10), history.Stale, "RF001")
	p.do(p.ending, b)
	return b
}

// find returns the index in the evidence of the n-th event of a kind, from 0.
func (b *builder) find(kind history.Kind, n int) int {
	for i, e := range b.held {
		if e.Kind == kind {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return -1
}

func TestGoodTasksAreValid(t *testing.T) {
	for name, p := range map[string]parts{
		"plain":                              {},
		"an asynchronous step is done again": {during: func(b *builder) { b.effect(10, 9) }},
		"killed before the effect": {before: func(b *builder) {
			b.attempt("worker-1", 10, 10)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantVerdict(t, judge(t, taskRun(p).finish()), check.Valid)
		})
	}
}

var flawedTasks = []struct {
	name, says string
	run        func() *builder
	want       []string
}{
	{"a synchronous step took effect twice", "twice", func() *builder {
		return taskRun(parts{during: func(b *builder) { b.effect(20, 8) }})
	}, []string{"I4"}},
	{"synchronous steps out of order", "after the later step", func() *builder {
		b := taskRun(parts{})
		i, j := b.find(history.Effect, 0), b.find(history.Effect, 2)
		b.held[i].Place, b.held[j].Place = b.held[j].Place, b.held[i].Place
		return b
	}, []string{"I4"}},
	{"an acknowledged step had no effect", "was acknowledged", func() *builder {
		return taskRun(parts{ending: func(b *builder) {
			b.answer(b.attempt("worker-2", 20, 20), history.OK, "")
		}})
	}, []string{"I4"}},
	{"a checkpoint passed a step without effect", "says that it is done", func() *builder {
		b := taskRun(parts{before: func(b *builder) { b.attempt("worker-1", 10, 10) }})
		b.header.Expect.Steps = 0
		b.without(func(e history.Event) bool {
			return e.Kind == history.Return && e.Key == key(10)
		})
		i := b.find(history.Effect, 10)
		b.held = slices.Delete(b.held, i, i+1)
		return b
	}, []string{"I4"}},
	{"a checkpoint was published without a condition", "went back", func() *builder {
		return taskRun(parts{ending: func(b *builder) { b.publish(20, 9) }})
	}, []string{"I4"}},
	{"an old leader published", "newer token 20", func() *builder {
		return taskRun(parts{ending: func(b *builder) { b.publish(10, 20) }})
	}, []string{"I4"}},
	{"a version is missing", "right after version", func() *builder {
		b := taskRun(parts{})
		i := b.find(history.Publish, 5)
		b.held = slices.Delete(b.held, i, i+1)
		return b
	}, []string{"I4"}},
	{"the task was not finished", "were demanded", func() *builder {
		b := taskRun(parts{})
		b.header.Expect.Steps = 21
		return b
	}, []string{"I4"}},
	{"an old leader's effect is committed late", "behind", func() *builder {
		return taskRun(parts{ending: func(b *builder) { b.effect(10, 20) }})
	}, []string{"I1"}},
}

func TestFlawedTasksAreCaught(t *testing.T) {
	for _, test := range flawedTasks {
		t.Run(test.name, func(t *testing.T) {
			r := judge(t, test.run().finish())
			wantInvariants(t, r, test.want...)
			if !strings.Contains(findings(r), test.says) {
				t.Errorf("nothing says %q:%s", test.says, findings(r))
			}
		})
	}
}
