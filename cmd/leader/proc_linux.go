package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process is a line of /proc/<pid>/stat.
type process struct {
	pid, parent, group int
	state              string
}

func (p process) dead() bool { return p.state == "Z" || p.state == "X" }

func processes() []process {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []process
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		if p, ok := parseStat(string(line)); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads "pid (name) state ppid pgrp …"; a name may hold anything, brackets and spaces too.
func parseStat(line string) (process, bool) {
	open, end := strings.IndexByte(line, ' '), strings.LastIndex(line, ") ")
	if open < 0 || end < 0 {
		return process{}, false
	}
	f := strings.Fields(line[end+2:])
	if len(f) < 3 {
		return process{}, false
	}
	pid, err1 := strconv.Atoi(line[:open])
	parent, err2 := strconv.Atoi(f[1])
	group, err3 := strconv.Atoi(f[2])
	return process{pid: pid, parent: parent, group: group, state: f[0]}, errors.Join(err1, err2, err3) == nil
}
