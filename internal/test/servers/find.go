package servers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
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

func (p places) redis() (string, error) {
	if file := first(p.path, "redis-server"); file != "" {
		return file, nil
	}
	return "", missing("redis-server", "redis-server", "redis")
}

func (p places) etcd() (string, error) {
	if file := first(p.path, "etcd"); file != "" {
		return file, nil
	}
	return "", missing("etcd", "etcd-server", "etcd")
}

// etcdTools returns the program that saves a snapshot of etcd, and the one that restores it. Since
// etcd 3.6 they are two.
func (p places) etcdTools() (save, restore string, err error) {
	if save = first(p.path, "etcdctl"); save == "" {
		return "", "", missing("etcdctl", "etcd-client", "etcd")
	}
	return save, cmp.Or(first(p.path, "etcdutl"), save), nil
}

func (p places) pgbouncer() (string, error) {
	if file := first(p.path, "pgbouncer"); file != "" {
		return file, nil
	}
	return "", missing("pgbouncer", "pgbouncer", "pgbouncer")
}

// The programs that only benchmarks start.

func (p places) haproxy() (string, error) {
	if file := first(p.path, "haproxy"); file != "" {
		return file, nil
	}
	return "", missingFor("deps-bench", "haproxy", "haproxy", "haproxy")
}

func (p places) twemproxy() (string, error) {
	if file := first(p.path, "nutcracker"); file != "" {
		return file, nil
	}
	return "", missingFor("deps-bench", "twemproxy (nutcracker)", "nutcracker", "twemproxy")
}

// postgres returns the directory with initdb and postgres: the first in the path, or else the
// highest version in the directories of the packages.
func (p places) postgres() (string, error) {
	patterns := []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"}
	for _, b := range brewed {
		patterns = append(patterns, b+"/postgresql*/bin")
	}
	var packaged []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(p.root + pattern)
		packaged = append(packaged, dirs...)
	}
	slices.SortStableFunc(packaged, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range slices.Concat(p.path, packaged) {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", missing("postgres (with initdb)", "postgresql", "postgresql")
}

// javaProgram prefers JAVA_HOME and Homebrew's to the path, because /usr/bin/java of macOS only
// prints that there is no Java.
func (p places) javaProgram() (string, error) {
	var dirs []string
	if p.java != "" {
		dirs = append(dirs, filepath.Join(p.java, "bin"))
	}
	for _, b := range brewed {
		dirs = append(dirs, p.root+b+"/openjdk/bin")
	}
	if file := first(append(dirs, p.path...), "java"); file != "" {
		return file, nil
	}
	return "", missing("java (for ZooKeeper)", "default-jre-headless", "openjdk")
}

// zookeeper returns the class path of ZooKeeper and of a logger that writes to standard error.
func (p places) zookeeper() (string, error) {
	if cp := debianClassPath(p.root + "/usr/share/java"); cp != "" && p.zoo == "" {
		return cp, nil
	}
	libs := []string{p.root + "/opt/zookeeper/lib", p.root + "/usr/local/zookeeper/lib"}
	for _, b := range brewed {
		libs = append(libs, p.root+b+"/zookeeper/libexec/lib")
	}
	if p.zoo != "" {
		libs = slices.Insert(libs, 0, filepath.Join(p.zoo, "lib"))
	}
	for _, lib := range libs {
		if jars, _ := filepath.Glob(lib + "/zookeeper-[0-9]*.jar"); len(jars) > 0 {
			return lib + "/*", nil
		}
	}
	return "", missing("ZooKeeper", "zookeeper default-jre-headless", "zookeeper")
}

// debianClassPath lists the jars of Debian's packages. The manifest of zookeeper.jar names its
// dependencies, but no logger; version 3.4 of older releases needs log4j-1.2 and netty. TLS needs
// those of netty 4.
func debianClassPath(dir string) string {
	if _, err := os.Stat(dir + "/zookeeper.jar"); err != nil {
		return ""
	}
	var jars []string
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "log4j-1.2", "netty",
		"netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport",
		"netty-transport-native-unix-common", "netty-transport-native-epoll",
	} {
		if jar := filepath.Join(dir, name+".jar"); fileExists(jar) {
			jars = append(jars, jar)
		}
	}
	return strings.Join(jars, ":")
}

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
