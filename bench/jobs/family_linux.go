package jobs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc: USER_HZ, which is 100 on every architecture that Go has.
const tick = time.Second / 100

// familyCPU is the time that the processes below this one have used, and their ended children.
func familyCPU() (total time.Duration, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents, used := map[string]string{}, map[string]time.Duration{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name is in brackets and may contain spaces and brackets. The parent is the second field
		// behind it, and fields 14 to 17 are the times.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		pid := filepath.Base(filepath.Dir(file))
		parents[pid] = fields[1]
		for _, field := range fields[11:15] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			used[pid] += time.Duration(n) * tick
		}
	}
	own := strconv.Itoa(os.Getpid())
	for pid := range parents {
		for p := parents[pid]; p != ""; p = parents[p] {
			if p == own {
				total += used[pid]
				break
			}
		}
	}
	return total, nil
}
