package election

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report has the measurements.
type report struct {
	plan      plan
	servers   []string // with their versions
	elections []electionRow
	held      []heldRow
}

// bar is a target that the measurements have to meet.
type bar struct {
	What        string  `json:"what"`
	Coordinator string  `json:"coordinator"`
	Size        int     `json:"size"` // candidates, or terms
	Value       float64 `json:"value"`
	Want        string  `json:"want"`
	Met         bool    `json:"met"`
}

func (r *report) bars() (all []bar) {
	for _, e := range r.elections {
		if e.Failed != "" {
			all = append(all, bar{
				What: "the election", Coordinator: e.Coordinator, Size: e.Candidates, Want: "no failure",
			})
			continue
		}
		all = append(all,
			bar{"after a resignation, p99, ms", e.Coordinator, e.Candidates, e.ResignP99, "at most 50",
				e.ResignP99 <= 50},
			bar{
				"after a crash, most, ms beyond the session timeout", e.Coordinator, e.Candidates, e.CrashMax,
				"at most 100", e.CrashMax <= 100,
			},
			bar{
				"candidates that one death wakes", e.Coordinator, e.Candidates, float64(e.WokenMax), "1",
				e.WokenMin == 1 && e.WokenMax == 1,
			})
	}
	for _, h := range r.held {
		most := 1
		if h.Coordinator == "zookeeper" {
			most = 2 // one for elections, and one to read
		}
		if h.Agent {
			all = append(all, bar{"a client of the agent is told, p99, ms", h.Coordinator, h.Terms,
				h.ToldP99, "at most 100", h.ToldP99 <= 100})
		}
		all = append(all, bar{"sessions of a process that leads", h.Coordinator, h.Terms,
			float64(h.Sessions), fmt.Sprint("at most ", most), h.Sessions <= most})
	}
	return all
}

// JSON implements the benchmark's result.
func (r *report) JSON(out io.Writer) error {
	notes := map[string]string{}
	for _, e := range r.plan.entries {
		notes[e.name] = e.note
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"servers": r.servers, "coordinators": notes, "session_timeout": r.plan.timeout.String(),
		"coordinators_of_an_election": r.plan.coordinators,
		"crashes":                     r.plan.crashes, "resignations": r.plan.resignations,
		"elections": r.elections, "processes": r.held, "bars": r.bars(),
	})
}

// Table implements the benchmark's result.
func (r *report) Table(out io.Writer) error {
	fmt.Fprintf(out, "%s. Candidates and server share this machine.\n", strings.Join(r.servers, ", "))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.elections) > 0 {
		fmt.Fprintf(out,
			"\nOne election, session timeout %s, candidates in up to %d coordinators. %d leaders are "+
				"killed and %d resign. Times in ms.\n",
			r.plan.timeout, r.plan.coordinators, r.plan.crashes, r.plan.resignations)
		fmt.Fprintln(w, "coordinator\tcandidates\tsessions\tconnections\tall enrolled\trequests/s at "+
			"rest\tresigned p50\tp99\tcrashed p50\tmost\twoken\tstall\t")
	}
	for _, e := range r.elections {
		if e.Failed != "" {
			fmt.Fprintf(w, "%s\t%d\tfailed\t\t\t\t\t\t\t\t\t\t\n", e.Coordinator, e.Candidates)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%.0f\t%.1f\t%.1f\t%.1f\t%+.0f\t%+.0f\t%s\t%.0f\t\n",
			e.Coordinator, e.Candidates,
			e.Sessions, known(e.Connections), e.Enrolled, e.Rest, e.ResignP50, e.ResignP99, e.CrashP50,
			e.CrashMax,
			span(e.WokenMin, e.WokenMax), e.Stall)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.held) > 0 {
		fmt.Fprintf(out, "\nOne process that leads, session timeout %s.\n", heldTimeout)
		fmt.Fprintln(w, "coordinator\tterms\tsessions\tconnections\tall won, ms\trequests/s at "+
			"rest\tbytes/s\tMiB without terms\tMiB with terms\tKiB per term\ttold of a loss p50, ms\tp99\t")
	}
	for _, h := range r.held {
		name, p50, p99 := h.Coordinator, "", ""
		if h.Agent {
			name, p50, p99 = name+", by an agent", fmt.Sprintf("%.1f", h.ToldP50),
				fmt.Sprintf("%.1f", h.ToldP99)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%.0f\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t%s\t%s\t\n", name, h.Terms,
			h.Sessions,
			known(h.Connections), h.Won, h.Rest, h.Bytes, h.Open, h.Leads,
			(h.Leads-h.Open)*1024/float64(h.Terms), p50, p99)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.printBars(out)
}

// known prints a number that not every server has.
func known(n int) string {
	if n == 0 {
		return "?"
	}
	return strconv.Itoa(n)
}

func span(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

func (r *report) printBars(out io.Writer) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bar\tcoordinator\tcandidates or terms\tmeasured\twanted\t")
	for _, b := range r.bars() {
		verdict := "met"
		if !b.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%s\t%s\n", b.What, b.Coordinator, b.Size, b.Value, b.Want,
			verdict)
	}
	fmt.Fprintln(w,
		"\nResigned: from the call until the next term. Crashed: from the KILL until the next "+
			"term, minus the session timeout. Woken: notices that the server has sent because of one "+
			"crash. Stall: the longest time in which the benchmark itself was not scheduled; no latency "+
			"is better than that.")
	fmt.Fprintln(w, "Memory is resident memory after a garbage collection; with terms, also the "+
		"stacks of the callers, one goroutine each.")
	for _, e := range r.plan.entries {
		fmt.Fprintf(w, "%s: %s.\n", e.name, e.note)
	}
	return w.Flush()
}
