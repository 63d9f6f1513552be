package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// String says which process it is, to a person who has to end it.
func (p Process) String() string {
	user := "?"
	if about, err := os.Stat("/proc/" + strconv.Itoa(p.Pid)); err == nil {
		if s, ok := about.Sys().(*syscall.Stat_t); ok {
			user = strconv.Itoa(int(s.Uid))
		}
	}
	return fmt.Sprintf("%d (%s, user %s)", p.Pid, strings.ToValidUTF8(p.Name, "?"), user)
}

// Signal sends a signal to the process, and never to another one that has got its process id.
func (p Process) Signal(s syscall.Signal) error {
	held, err := os.FindProcess(p.Pid) // on Linux by a pidfd
	if err != nil {
		return err
	}
	defer held.Release()
	if now, there := Find(p.Pid); !there || now.Start != p.Start {
		return os.ErrProcessDone
	}
	return held.Signal(s)
}

// List lists every visible process.
func List() []Process {
	own.Lock()
	defer own.Unlock()
	all := list()
	mark(all)
	return all
}

func list() []Process {
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

// parseStat reads "pid (name) state ppid pgrp …", whose 22nd field is the start. A name may contain
// anything, even brackets and spaces.
func parseStat(line string) (Process, bool) {
	open, end := strings.Index(line, " ("), strings.LastIndex(line, ") ")
	if open < 0 || end < open+2 {
		return Process{}, false
	}
	f := strings.Fields(line[end+2:])
	if len(f) < 20 {
		return Process{}, false
	}
	pid, err1 := strconv.Atoi(line[:open])
	parent, err2 := strconv.Atoi(f[1])
	group, err3 := strconv.Atoi(f[2])
	start, err4 := strconv.ParseUint(f[19], 10, 64)
	p := Process{
		Pid: pid, Parent: parent, Group: group, Name: line[open+2 : end], State: f[0], Start: start,
	}
	return p, errors.Join(err1, err2, err3, err4) == nil
}
