package process

import (
	"os"
	"strconv"
	"strings"
)

// MarkOf returns the value of Mark with which a process was started. It is empty if there is none,
// or if that is not to be seen: only root sees it of a process that has another user.
func MarkOf(pid int) string {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(entry, Mark+"="); ok {
			return value
		}
	}
	return ""
}
