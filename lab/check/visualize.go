package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ringfence/ringfence/lab/history"
)

// Visualize writes porcupine's page about the model of the guard to a file. The page shows the
// answers to each process, an order that explains them (or the longest that was found), the faults
// and the terms, separately for each store. The error says why there is no page: the history has no
// operations, or the file cannot be written.
func Visualize(events []history.Event, path string) error {
	r := parse(events)
	lanes := map[string]int{}
	var all []porcupine.Operation
	for _, store := range r.stores() {
		all = append(all, r.modelled(store, lanes)...)
	}
	if len(all) == 0 {
		return errors.New("the history has no operations to draw")
	}
	start := r.events[0].At
	for i := range all {
		all[i].Call -= start
		all[i].Return -= start
	}
	m := register()
	m.Partition = byStore
	_, info := porcupine.CheckOperationsVerbose(m, all, modelTime)
	info.AddAnnotations(r.annotations(start))
	if err := porcupine.VisualizePath(m, info, path); err != nil {
		return fmt.Errorf("porcupine's page: %w", err)
	}
	return nil
}

func byStore(all []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, o := range all {
		store := o.Input.(input).store
		parts[store] = append(parts[store], o)
	}
	var sorted [][]porcupine.Operation
	for _, store := range slices.Sorted(maps.Keys(parts)) {
		sorted = append(sorted, parts[store])
	}
	return sorted
}

// annotations returns the faults, with one lane for those that do not overlap, and the terms.
func (r *run) annotations(start int64) []porcupine.Annotation {
	var all []porcupine.Annotation
	var lanes []int64 // until when each is occupied
	for _, t := range r.faults {
		end := min(t.end, r.last())
		lane := slices.IndexFunc(lanes, func(until int64) bool { return until < t.begin })
		if lane < 0 {
			lane = len(lanes)
			lanes = append(lanes, 0)
		}
		lanes[lane] = end
		all = append(all, porcupine.Annotation{
			Tag: fmt.Sprintf("faults %d", lane+1), Start: t.begin - start, End: end - start,
			Description: t.name, Details: t.text, BackgroundColor: "#f6c9c0",
		})
	}
	for _, t := range r.terms.Events {
		all = append(all, porcupine.Annotation{
			Tag: t.Process, Start: t.At - start, Details: t.Text, BackgroundColor: "#d5e3f7",
			Description: string(t.State) + " " + t.Token.String(),
		})
	}
	return all
}
