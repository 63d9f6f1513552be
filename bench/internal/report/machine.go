package report

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Machine says where a report comes from.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Load   string `json:"load"`  // average of the minute before: what other programs did
	Guard  string `json:"guard"` // the commit from which the guard was built
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, load before %s, guard of %s",
		m.Cores, m.CPU, m.Kernel, m.Load, m.Guard)
}

// thisMachine describes this machine and the guard. What cannot be found out is "unknown".
func thisMachine(guard string) Machine {
	release := firstLine("/proc/sys/kernel/osrelease")
	return Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: runtime.GOOS + " " + release,
		Load: load(), Guard: commit(guard),
	}
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func load() string {
	minute, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return minute
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// commit returns the commit that a program's build has recorded, or else the one that is checked
// out where the program is. A plus sign says that the source had changes that were not committed.
func commit(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "unknown"
	}
	var revision, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if revision == "" {
		return checkedOut(filepath.Dir(program))
	}
	return revision + changed
}

func checkedOut(dir string) string {
	out, err := exec.Command("git", "-C", dir, "describe", "--always", "--abbrev=12", "--exclude=*",
		"--dirty=+").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
