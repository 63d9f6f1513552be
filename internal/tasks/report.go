package tasks

import (
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
)

// notify is told what happens, by the goroutine that runs the task. That it waits there between rounds keeps the next
// round from beginning.
func (r *taskRun) notify(e checkpoint.Event) {
	r.Bar.show(e)
	r.report(e)
	if e.Kind == checkpoint.Began {
		r.key = e.Checkpoint.Key()
	}
	if e.Kind != checkpoint.Ended && e.Kind != checkpoint.TookOver || r.File.Every == 0 {
		return
	}
	if cp := e.Checkpoint; cp.Status == checkpoint.Running && cp.Step == 0 && cp.Round > 1 {
		r.Bar.say("waits for the next round")
		r.rest(restOf(r.File.Every, time.Since(cp.Saved)))
	}
}

// restOf is what is left of the pause between two rounds. Another machine's clock may have said when it began, so it
// is never longer than the whole.
func restOf(every, since time.Duration) time.Duration { return min(max(every-since, 0), every) }

// rest waits, unless the term or the run ends.
func (r *taskRun) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.over:
	case <-r.elector.term().Context().Done():
	}
}

// report writes a line to the log. Where there is a bar, it shows what goes well.
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
	case checkpoint.TookOver:
		t := e.TakeOver
		log.Info("leader; took over the task", append(at, "token", r.elector.term().Token().String(), "version", cp.Version,
			"detection", known(t.Detection), "election", known(t.Election), "raise", short(t.Raise), "first_step", short(t.FirstStep), "reloaded", t.Reloaded)...)
	case checkpoint.Began:
		log.Log(r.ctx, fine, "step begins", append(at, "number", cp.Step+1, "of", len(cp.Steps), "attempt", e.Attempt)...)
	case checkpoint.Ended:
		log.Log(r.ctx, fine, "step has ended", append(at, "took", short(e.Took))...)
	case checkpoint.Retrying:
		log.Warn("step has failed; it is tried again", append(at, "attempt", e.Attempt, "cause", cause, "wait", short(e.Wait))...)
	case checkpoint.Paused:
		log.Warn("the coordinator is out of reach; the next step waits", at...)
	case checkpoint.Halted:
		log.Error("step has failed for good", append(at, "attempt", e.Attempt, "cause", cause)...)
	case checkpoint.Interrupted:
		r.interrupted(cause, e)
	case checkpoint.Completed:
		log.Debug("every step has ended", "version", cp.Version)
	}
}

// interrupted tells of what is tried again by itself: at first it often is over before anybody has read of it, and later
// once in a while is enough.
func (r *taskRun) interrupted(cause string, e checkpoint.Event) {
	level := slog.LevelDebug
	if now := time.Now(); e.Wait >= 100*time.Millisecond && now.Sub(r.told) > 10*time.Second {
		level, r.told = slog.LevelWarn, now
	}
	r.Log.Log(r.ctx, level, "interrupted; it is tried again", "cause", cause, "wait", short(e.Wait), "version", e.Checkpoint.Version)
}

func short(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// known is short, but for what was not seen.
func known(d time.Duration) string {
	if d == 0 {
		return "unknown"
	}
	return short(d)
}

// roundOf is the round that an event belongs to: the last step's end has the next one in its checkpoint.
func roundOf(e checkpoint.Event) int64 {
	if cp := e.Checkpoint; e.Kind == checkpoint.Ended && cp.Step == 0 && cp.Status == checkpoint.Running {
		return cp.Round - 1
	}
	return e.Checkpoint.Round
}
