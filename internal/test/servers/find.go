package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
)

// MissingError says that a program is not installed, and how to install it.
type MissingError struct {
	Program string
	Install string // the command that installs it
	Target  string // of make, which does it too
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: run `make %s`, or: %s", e.Program, e.Target, e.Install)
}

// missing is the MissingError for a program in the given Debian and Homebrew packages.
func missing(program, debian, brew string) error {
	return missingFor("deps", program, debian, brew)
}

func missingFor(target, program, debian, brew string) error {
	install := "apt-get install -y " + debian
	if runtime.GOOS == "darwin" {
		install = "brew install " + brew
	}
	return &MissingError{Program: program, Install: install, Target: target}
}

// places are the directories to search for programs.
type places struct {
	path []string // directories for all programs, first match wins
	root string   // prefix of the well-known directories; "" is the real system
	java string   // JAVA_HOME
	zoo  string   // ZOOKEEPER_HOME
}

// system returns the places of this machine: PATH, the system directories that a user's PATH often
// lacks on Debian, and Homebrew's.
func system() places {
	path := filepath.SplitList(os.Getenv("PATH"))
	return places{
		path: append(path,
			"/usr/sbin", "/usr/bin", "/opt/homebrew/bin", "/usr/local/bin", "/usr/local/sbin"),
		java: os.Getenv("JAVA_HOME"),
		zoo:  os.Getenv("ZOOKEEPER_HOME"),
	}
}

// brewed are the prefixes under which Homebrew keeps packages.
var brewed = []string{"/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// first returns the first program of that name in the directories, or "".
func first(dirs []string, program string) string {
	for _, dir := range dirs {
		if file := filepath.Join(dir, program); filepath.IsAbs(file) && executable(file) {
			return file
		}
	}
	return ""
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var digits = regexp.MustCompile(`[0-9]+`)

// version is the last number in the path, as in /usr/lib/postgresql/15/bin.
func version(path string) int {
	all := digits.FindAllString(path, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1])
	return n
}
