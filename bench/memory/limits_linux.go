package memory

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
)

// allowFiles raises the number of files that this process and those that it starts may open to n,
// if the system allows that. It returns the number that it is now.
func allowFiles(n int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return n
	}
	wanted := max(limit.Max, uint64(n))
	// Only root may raise the hard limit. What is inherited is only a limit that was set here.
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: wanted, Max: wanted}) == nil {
		return int(wanted)
	}
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Max, Max: limit.Max})
	return int(limit.Max)
}

// leastMemory has to stay available on the machine.
const leastMemory = 2 << 30

// enoughMemory reports whether the machine has memory for more sessions.
func enoughMemory() bool {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return true
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kilobytes int64
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes<<10 > leastMemory
		}
	}
	return true
}
