package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

//go:embed page.html
var pageText string

//go:embed index.html
var indexText string

//go:embed page.js
var script string

//go:embed page.css
var style string

var (
	pageTemplate  = template.Must(template.New("page").Parse(pageText))
	indexTemplate = template.Must(template.New("index").Parse(indexText))
)

// Bounds of the lists on the page; results.json and history.jsonl have everything.
const (
	mostProblems = 500
	mostNotes    = 500
)

// page is the input of the template.
type page struct {
	Verdict   verdict
	Header    history.Header
	Started   string
	Chips     []string
	Tiles     []tile
	Answers   []answerRow
	Problems  []problemRow
	More      int // problems that are not listed
	Doubts    []string
	Faults    []faultRow
	Terms     []termRow
	Notes     []noteRow
	MoreNote  int
	OneIn     int // one in OneIn of the acknowledged writes is drawn
	Links     []string
	Unguarded bool
	Empty     bool // there is nothing to draw
	Data      template.JS
	Script    template.JS
	Style     template.CSS
	Hash      string // of the script: the page lets nothing else run
}

// render writes the page of one run, which needs no network and no other file. It links to files
// beside the page.
func render(w io.Writer, events []history.Event, r check.Result, links []string) error {
	d := read(events, r)
	data, err := json.Marshal(d.drawing)
	if err != nil {
		return fmt.Errorf("report: drawing: %w", err)
	}
	h := header(r)
	hash := sha256.Sum256([]byte(script))
	p := page{Verdict: shownVerdict(r), Header: h, Started: started(h), Chips: chips(r),
		Tiles:    tiles(r.Figures),
		Answers:  answerRows(r.Figures),
		Problems: d.problemRows(r.Problems), More: len(r.Problems) - len(d.Problems),
		Doubts: r.Doubts,
		Faults: d.faultRows(), Terms: d.termRows(), OneIn: d.OneIn, Links: links,
		Empty:     len(d.events) == 0,
		Unguarded: r.Header != nil && !r.Header.Guarded,
		Data:      template.JS(data), Script: template.JS(script), Style: template.CSS(style),
		Hash: base64.StdEncoding.EncodeToString(hash[:])}
	p.Notes, p.MoreNote = d.noteRows(events)
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	return nil
}

func started(h history.Header) string {
	if h.Started.IsZero() {
		return ""
	}
	return h.Started.UTC().Format(time.DateTime) + " UTC"
}

func chips(r check.Result) []string {
	if r.Header == nil {
		return nil
	}
	all := []string{"guard on"}
	if !r.Header.Guarded {
		all[0] = "guard OFF"
	}
	if r.Header.Control != "" {
		all = append(all, "control: "+r.Header.Control)
	}
	all = append(all, "elections in "+coordinator(r))
	if r.Header.Injector != "" {
		all = append(all, r.Header.Injector)
	}
	if r.Header.Session > 0 {
		all = append(all, "session "+r.Header.Session.String())
	}
	return all
}

// tile is one key figure.
type tile struct {
	Value, Label, Note string
	Tone               tone
}

func tiles(f check.Figures) []tile {
	median, longest := takeOver(f)
	over := tile{median, "take-over", "longest " + longest, plain}
	if median == "-" {
		over.Note = "there was none"
	}
	all := []tile{
		{fmt.Sprint(f.StaleAccepted), "stale writes accepted",
			"behind a newer token, in the order of commits",
			zeroIsGood(f.StaleAccepted, f.StaleAttempts)},
		{fmt.Sprintf("%d / %d", f.StaleRefused, f.StaleAttempts), "stale attempts refused",
			refusedNote(f), refusedTone(f)},
		{fmt.Sprint(f.FalseRefusals), "false refusals", "of a rightful leader",
			zeroIsGood(f.FalseRefusals, f.Writes)},
		{fmt.Sprint(f.Changes), "changes of leadership", "", plain},
		over,
		{fmt.Sprint(f.Acknowledged), "acknowledged writes", acknowledgedNote(f), lossTone(f.Lost)},
	}
	if f.Jobs != nil {
		all = append(all, jobsTile(*f.Jobs))
	}
	return all
}

func jobsTile(j check.JobFigures) tile {
	t := tile{
		fmt.Sprintf("%d / %d", j.Done, j.Submitted), "jobs done",
		fmt.Sprintf("%d taken back; %d late completions, %d accepted", j.TakenBack, j.Late, j.LateTaken),
		good,
	}
	if j.Done < j.Submitted || j.LateTaken > 0 {
		t.Tone = bad
	}
	return t
}

// zeroIsGood returns the tone for n bad results of so many attempts. No attempts prove nothing.
func zeroIsGood(n, of int) tone {
	switch {
	case n > 0:
		return bad
	case of == 0:
		return plain
	}
	return good
}

func lossTone(lost int) tone {
	if lost > 0 {
		return bad
	}
	return plain
}

func refusedTone(f check.Figures) tone {
	if f.StaleAttempts == 0 {
		return doubt
	}
	return plain
}

func refusedNote(f check.Figures) string {
	rest := f.StaleAttempts - f.StaleRefused
	switch {
	case f.StaleAttempts == 0:
		return "nothing was tested"
	case rest > 0:
		return fmt.Sprintf("%d had another outcome: see below", rest)
	}
	return "every one"
}

func acknowledgedNote(f check.Figures) string {
	note := fmt.Sprintf("of %d, %d unknown; %.0f/s, in faults %.0f/s", f.Writes, f.Unknown,
		f.Before, f.During)
	if f.Lost > 0 {
		note = fmt.Sprintf("%d LOST; ", f.Lost) + note
	}
	return note
}
