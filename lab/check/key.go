package check

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/lab/history"
)

// position is where a step is in its task.
type position struct {
	run, round int64
	step       int
}

func (p position) compare(q position) int {
	return cmp.Or(
		cmp.Compare(p.run, q.run), cmp.Compare(p.round, q.round), cmp.Compare(p.step, q.step))
}

// plan is the order of the steps in a history. A key is task/run/round/step, with the step's name.
// The names are numbered in the order in which they first began. That is the task's order, because
// its first leader began at its first step.
type plan struct {
	place map[string]int // of task/step
	steps map[string]int // of a task, so far
}

func (r *run) plan() plan {
	p := plan{map[string]int{}, map[string]int{}}
	for _, o := range r.ops {
		if o.do == history.Step {
			p.learn(o.key)
		}
	}
	for _, e := range r.effects {
		p.learn(e.Key)
	}
	return p
}

// splitKey returns the parts of a key. A key of another form is the name of a step without a task.
func splitKey(key string) (task, step string, run, round int64) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 {
		return "", key, 0, 0
	}
	run, err := strconv.ParseInt(parts[1], 10, 64)
	round, bad := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || bad != nil {
		return "", key, 0, 0
	}
	return parts[0], parts[3], run, round
}

func (p plan) learn(key string) {
	task, step, _, _ := splitKey(key)
	if _, ok := p.place[task+"/"+step]; !ok {
		p.place[task+"/"+step] = p.steps[task]
		p.steps[task]++
	}
}

func (p plan) position(key string) position {
	task, step, run, round := splitKey(key)
	return position{run, round, p.place[task+"/"+step]}
}

func taskOf(key string) string {
	task, _, _, _ := splitKey(key)
	return task
}
