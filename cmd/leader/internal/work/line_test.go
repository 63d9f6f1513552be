package work

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/jobs/job"
)

func TestTheLineSaysHowFarAJobIs(t *testing.T) {
	running := job.Status{ID: "x", State: job.Running, WorkerName: "w1", Attempt: 2, Token: 45}
	steps := checkpoint.Checkpoint{Step: 1, Steps: []string{"close", "book", "pay"}}
	for want, c := range map[string]struct {
		line    *line
		width   int
		elapsed time.Duration
	}{
		"waiting: there is no worker  0:07": {
			&line{now: job.Status{State: job.Waiting}, note: "there is no worker"}, 79, 7 * time.Second},
		"running at w1, attempt 2, token 45  2:05": {&line{now: running}, 79, 125 * time.Second},
		"[############............]  running at w1, attempt 2, token 45  0:05": {
			&line{now: running, limit: 10 * time.Second}, 79, 5 * time.Second},
		"[########................] 1/3 book  running at w1, attempt 2, token 45  0:05": {
			&line{now: running, steps: steps}, 99, 5 * time.Second},
		"[##......] 1/3 book  running at w1, attempt 2, token 45  0:05": {&line{now: running,
			steps: steps}, 61, 5 * time.Second},
		"1/3 book  running at w1, attempt 2, token": {&line{now: running, steps: steps}, 41,
			5 * time.Second},
		"[########################] 3/3  done": {
			&line{now: job.Status{State: job.Done}, steps: steps}, 79, 5 * time.Second},
		"[########................] 1/3  failed: bad": {
			&line{
				now: job.Status{State: job.Failed, Error: "bad\nand long"}, steps: steps,
			}, 79, 5 * time.Second},
	} {
		if got := c.line.text(c.width, c.elapsed); got != want {
			t.Errorf("got  %q,\nwant %q", got, want)
		}
	}
}

func TestWithoutATerminalEachChangeIsALine(t *testing.T) {
	var b bytes.Buffer
	l := newLine(&b, nil, 0)
	for _, s := range []job.Status{
		{ID: "x", State: job.Waiting}, {ID: "x", State: job.Waiting}, {
			ID: "x", State: job.Assigned, WorkerName: "a b",
		},
		{ID: "x", State: job.Cancelled},
	} {
		l.show(s, "")
	}
	l.step(checkpoint.Checkpoint{Steps: []string{"a"}})
	l.end()
	var got []string
	for text := range strings.Lines(b.String()) {
		got = append(got, strings.TrimSpace(text[8:]))
	}
	if want := `waiting|assigned to "a b"|cancelled`; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
