package servers

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

func TestMissingProgramSaysHowToInstallIt(t *testing.T) {
	nowhere := places{root: t.TempDir()}
	for want, find := range map[string]func() (string, error){
		"redis":      nowhere.redis,
		"pgbouncer":  nowhere.pgbouncer,
		"haproxy":    nowhere.haproxy,
		"nutcracker": nowhere.twemproxy,
		"postgresql": nowhere.postgres,
		"jre":        nowhere.javaProgram,
		"zookeeper":  nowhere.zookeeper,
	} {
		if runtime.GOOS == "darwin" && want == "jre" {
			want = "openjdk"
		}
		_, err := find()
		e, ok := errors.AsType[*MissingError](err)
		if !ok || !strings.Contains(e.Install, want) || !strings.Contains(err.Error(), "make deps") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// install creates an empty executable below root.
func install(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		file := filepath.Join(root, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Succeed(t, os.WriteFile(file, nil, 0o755))
	}
}

func TestHighestPostgresVersionIsFound(t *testing.T) {
	root := t.TempDir()
	install(t, root,
		"usr/lib/postgresql/9/bin/initdb", "usr/lib/postgresql/9/bin/postgres",
		"usr/lib/postgresql/16/bin/initdb", "usr/lib/postgresql/16/bin/postgres",
		"usr/lib/postgresql/17/bin/initdb", // a client package without the server
		"opt/homebrew/opt/postgresql@15/bin/initdb", "opt/homebrew/opt/postgresql@15/bin/postgres")
	dir, err := places{root: root}.postgres()
	if want := filepath.Join(root, "usr/lib/postgresql/16/bin"); dir != want {
		t.Errorf("%s, %v; want %s", dir, err, want)
	}
}

func TestPathHasPrecedenceForPostgres(t *testing.T) {
	root := t.TempDir()
	install(t, root, "mine/initdb", "mine/postgres",
		"usr/lib/postgresql/16/bin/initdb", "usr/lib/postgresql/16/bin/postgres")
	mine := filepath.Join(root, "mine")
	if dir, err := (places{root: root, path: []string{"/nowhere", mine}}).postgres(); dir != mine {
		t.Error(dir, err)
	}
}

func TestJavaHomeAndHomebrewHavePrecedenceOverThePath(t *testing.T) {
	root := t.TempDir()
	install(t, root, "bin/java", "home/bin/java", "opt/homebrew/opt/openjdk/bin/java")
	p := places{
		root: root, path: []string{filepath.Join(root, "bin")}, java: filepath.Join(root, "home"),
	}
	if got, err := p.javaProgram(); got != filepath.Join(root, "home/bin/java") {
		t.Error(got, err)
	}
	p.java = ""
	if got, err := p.javaProgram(); got != filepath.Join(root, "opt/homebrew/opt/openjdk/bin/java") {
		t.Error(got, err)
	}
}

func TestZooKeeperIsFoundInItsPackages(t *testing.T) {
	debian, brew, home := t.TempDir(), t.TempDir(), t.TempDir()
	install(t, debian, "usr/share/java/zookeeper.jar", "usr/share/java/slf4j-api.jar")
	install(t, brew, "opt/homebrew/opt/zookeeper/libexec/lib/zookeeper-3.9.3.jar")
	install(t, home, "lib/zookeeper-3.9.4.jar")
	java := filepath.Join(debian, "usr/share/java")
	for want, p := range map[string]places{
		java + "/zookeeper.jar:" + java + "/slf4j-api.jar":                   {root: debian},
		filepath.Join(brew, "opt/homebrew/opt/zookeeper/libexec/lib") + "/*": {root: brew},
		filepath.Join(home, "lib") + "/*":                                    {root: debian, zoo: home},
	} {
		if got, err := p.zookeeper(); got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestRelativePathEntryFindsNothing(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "redis-server")
	t.Chdir(dir)
	if got, err := (places{path: []string{".", ""}}).redis(); err == nil {
		t.Error(got)
	}
}
