package supervise

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// memoryKills returns how many processes of this machine the kernel has ended for want of memory
// (oom_kill in /proc/vmstat, proc(5)), those at the limit of a control group among them. It is 0 if
// that is not known.
func memoryKills() (n int) {
	f, err := os.Open("/proc/vmstat")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if count, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, _ = strconv.Atoi(count)
		}
	}
	return n
}
