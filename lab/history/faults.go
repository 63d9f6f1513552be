package history

// Never is later than every event.
const Never = int64(1) << 62

// FaultSpan is one fault from its Begin to its End.
type FaultSpan struct {
	Begin Event
	End   Event // its At is Never if the history does not say that the fault ended
}

// Faults pairs the Begin and End events of faults, in the order of their Begins. Faults may nest,
// also two of one name: an End closes the one of its name that began last.
func Faults(events []Event) []FaultSpan {
	var all []FaultSpan
	open := map[string][]int{} // by name, the latest last
	for _, e := range events {
		if e.Kind != Fault {
			continue
		}
		name := e.Fault + "\x00" + Worker(e.Process)
		switch waiting := open[name]; {
		case e.State == Begin:
			open[name] = append(waiting, len(all))
			all = append(all, FaultSpan{Begin: e, End: Event{At: Never}})
		case e.State == Over && len(waiting) > 0:
			last := len(waiting) - 1
			all[waiting[last]].End = e
			open[name] = waiting[:last]
		}
	}
	return all
}
