package report

import (
	"fmt"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// answerRow is what stale attempts were told.
type answerRow struct {
	Answer  string
	Count   int
	Meaning string
	Example string
	Tone    tone
}

// answerRows explains what each of the stale attempts was told. They are empty if all were refused
// as stale.
func answerRows(f check.Figures) (rows []answerRow) {
	if f.StaleAttempts == f.StaleRefused {
		return nil
	}
	rows = append(rows, answerRow{
		Answer: "refused as stale", Count: f.StaleRefused, Tone: plain,
		Meaning: "The answer was RF001, STALETOKEN or a transaction that did not enter: the store " +
			"knows a newer token.",
	})
	told := 0
	for _, a := range f.StaleAnswers {
		told += a.Count
		rows = append(rows,
			answerRow{answers[a.Outcome], a.Count, meaning(a.Outcome, f), a.Example, toneOf(a.Outcome)})
	}
	if rest := f.StaleAttempts - f.StaleRefused - told; rest > 0 {
		// a result that was written by an older lab
		rows = append(rows, answerRow{
			Answer: "another outcome", Count: rest, Meaning: "history.jsonl has each.", Tone: plain,
		})
	}
	return rows
}

// answers says in words what a process knows.
var answers = map[history.Outcome]string{
	history.OK: "accepted", history.Unknown: "no answer",
	history.Refused: "refused for another reason",
	history.Failed:  "not sent",
}

func meaning(o history.Outcome, f check.Figures) string {
	switch o {
	case history.OK:
		return "The store has acknowledged a write of a deposed leader."
	case history.Unknown:
		const ended = "The connection ended while the write was under way, as when a newer leader ends " +
			"the session. The writer cannot know whether it was committed, so the databases were asked: "
		if f.StaleAccepted == 0 {
			return ended + "they hold none of these writes behind a newer token."
		}
		return ended + fmt.Sprintf("%s, of whatever answer, are there behind a newer token.",
			count(f.StaleAccepted, "stale write"))
	case history.Refused:
		return "The store or the guard has refused it with another code, and nothing was written."
	}
	return "There was no connection on which it could be sent, as while a server is down. Nothing " +
		"was written."
}

func toneOf(o history.Outcome) tone {
	if o == history.OK {
		return bad
	}
	return plain
}
