package tasks

import (
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
)

// notify gets the events of the task, from the goroutine that runs it. It waits between rounds,
// which delays the next round.
func (r *taskRun) notify(e checkpoint.Event) {
	r.Bar.show(e)
	r.report(e)
	if e.Kind == taskevent.Began {
		r.key = e.Checkpoint.Key()
	}
	if e.Kind != taskevent.Ended && e.Kind != taskevent.TookOver || r.File.Every == 0 {
		return
	}
	if cp := e.Checkpoint; cp.Status == checkpoint.Running && cp.Step == 0 && cp.Round > 1 {
		r.Bar.say("waits for the next round")
		r.rest(remaining(r.File.Every, time.Since(cp.Saved)))
	}
}

// remaining is the rest of the pause between two rounds. The clock of another machine may have set
// its start, so the result is never longer than the whole pause.
func remaining(every, since time.Duration) time.Duration { return min(max(every-since, 0), every) }

// rest waits until d has passed, or the term or the run ends.
func (r *taskRun) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.over:
	case <-r.elector.term().Context().Done():
	}
}

// report logs an event. Successes are at level debug if there is a bar, which shows them.
func (r *taskRun) report(e checkpoint.Event) {
	cp, log, fine := e.Checkpoint, r.Log, slog.LevelInfo
	if r.Bar != nil {
		fine = slog.LevelDebug
	}
	at := []any{"step", e.Step, "round", roundOf(e), "run", cp.Run}
	cause := ""
	if e.Err != nil {
		cause = r.Settings.scrub(e.Err.Error())
	}
	switch e.Kind {
	case taskevent.TookOver:
		t := e.TakeOver
		log.Info("leader; took over the task", append(at,
			"token", r.elector.term().Token().String(), "version", cp.Version,
			"detection", known(t.Detection), "election", known(t.Election),
			"raise", short(t.Raise), "first_step", short(t.FirstStep), "reloaded", t.Reloaded)...)
	case taskevent.Began:
		log.Log(r.ctx, fine, "step begins", append(at,
			"number", cp.Step+1, "of", len(cp.Steps), "attempt", e.Attempt)...)
	case taskevent.Ended:
		log.Log(r.ctx, fine, "step has ended", append(at, "took", short(e.Took))...)
	case taskevent.Retrying:
		log.Warn("step has failed; retrying", append(at,
			"attempt", e.Attempt, "cause", cause, "wait", short(e.Wait))...)
	case taskevent.Paused:
		log.Warn("the coordinator is out of reach; the next step waits", at...)
	case taskevent.Halted:
		log.Error("step has failed; no attempts are left",
			append(at, "attempt", e.Attempt, "cause", cause)...)
	case taskevent.Interrupted:
		r.interrupted(cause, e)
	case taskevent.Completed:
		log.Debug("every step has ended", "version", cp.Version)
	}
}

// interrupted logs an interruption that is retried automatically. The first retries often succeed
// at once, so they are at level debug; later ones are warnings, at most one in ten seconds.
func (r *taskRun) interrupted(cause string, e checkpoint.Event) {
	level := slog.LevelDebug
	if now := time.Now(); e.Wait >= 100*time.Millisecond && now.Sub(r.lastWarned) > 10*time.Second {
		level, r.lastWarned = slog.LevelWarn, now
	}
	r.Log.Log(r.ctx, level, "interrupted; retrying",
		"cause", cause, "wait", short(e.Wait), "version", e.Checkpoint.Version)
}

func short(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// known is short, or "unknown" for 0.
func known(d time.Duration) string {
	if d == 0 {
		return "unknown"
	}
	return short(d)
}

// roundOf returns the round of an event. At the end of the last step, the checkpoint already has
// the next round.
func roundOf(e checkpoint.Event) int64 {
	if cp := e.Checkpoint; e.Kind == taskevent.Ended && cp.Step == 0 &&
		cp.Status == checkpoint.Running {
		return cp.Round - 1
	}
	return e.Checkpoint.Round
}
