package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a line of /proc/<pid>/stat.
type Process struct {
	Pid, Parent, Group int
	State              string // its letter in proc(5)
}

// Dead reports whether the process only waits to be reaped.
func (p Process) Dead() bool { return p.State == "Z" || p.State == "X" }

// Processes lists every visible process.
func Processes() []Process {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []Process
	for _, name := range names {
		if p, ok := readStat(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// Find returns the process with this id. It reports false if there is none.
func Find(pid int) (Process, bool) { return readStat("/proc/" + strconv.Itoa(pid) + "/stat") }

func readStat(name string) (Process, bool) {
	line, err := os.ReadFile(name)
	if err != nil {
		return Process{}, false // it has ended in the meantime
	}
	return parseStat(string(line))
}

// parseStat reads "pid (name) state ppid pgrp …". A name may contain anything, even brackets and
// spaces.
func parseStat(line string) (Process, bool) {
	open, end := strings.IndexByte(line, ' '), strings.LastIndex(line, ") ")
	if open < 0 || end < 0 {
		return Process{}, false
	}
	f := strings.Fields(line[end+2:])
	if len(f) < 3 {
		return Process{}, false
	}
	pid, err1 := strconv.Atoi(line[:open])
	parent, err2 := strconv.Atoi(f[1])
	group, err3 := strconv.Atoi(f[2])
	p := Process{Pid: pid, Parent: parent, Group: group, State: f[0]}
	return p, errors.Join(err1, err2, err3) == nil
}
