package process

// Process is a line of /proc/<pid>/stat, as proc(5) has it.
type Process struct {
	Pid, Parent, Group int
	Name               string
	State              string // a letter
	Start              uint64 // in clock ticks since the machine was started

	Child  bool // this program has started it with Start
	Orphan bool // it hangs under this program, but its own parent has ended
}

// Dead reports whether the process only waits to be reaped.
func (p Process) Dead() bool { return p.State == "Z" || p.State == "X" }
