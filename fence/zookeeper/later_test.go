package zookeeper

import (
	"bytes"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/electiontest"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// command runs ZooKeeper's own command line, which has different names in different installations.
func command(t *testing.T, ensemble string, lines ...string) {
	t.Helper()
	for _, name := range []string{"zkCli.sh", "zkCli", "/usr/share/zookeeper/bin/zkCli.sh"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), program, "-server", ensemble)
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\nquit\n")
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("Exception")) ||
			bytes.Contains(out, []byte("Insufficient permission")) {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		return
	}
	t.Skip("no zkCli.sh in PATH or /usr/share/zookeeper/bin")
}

// The documented procedure: first all programs get the credentials, and then the older znodes.
func TestCredentialsThatAreAddedLaterKeepOthersOut(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	before := openFor(t, "zk://"+ensemble+root, 20*time.Second)
	term := electiontest.Win(t, before, "orders", "a")
	must.Succeed(t, term.Resign(t.Context()))
	warnings := func() string {
		var log synchronized
		co, err := Open(t.Context(), "zk://alice:secret@"+ensemble+root,
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must.Succeed(t, err)
		co.Close()
		return log.String()
	}
	if said := warnings(); !strings.Contains(said, "addauth digest alice:PASSWORD") ||
		!strings.Contains(said, "setAcl -R "+root+" auth::cdrwa") {
		t.Errorf("logged is %q", said)
	}
	c := openFor(t, "zk://alice:secret@"+ensemble+root, 20*time.Second)
	term = electiontest.Win(t, c, "orders", "b")

	command(t, ensemble, "addauth digest alice:secret", "setAcl -R "+root+" auth::cdrwa")

	confirmedAgain(t, term)
	nobody := zookeepertest.Connect(t, ensemble)
	alice := zookeepertest.Connect(t, ensemble)
	must.Succeed(t, alice.AddAuth("digest", []byte("alice:secret")))
	all := below(t, alice, root)
	if len(all) != 5 {
		t.Errorf("there are %q", all)
	}
	for _, at := range all {
		zookeepertest.MayDoNothing(t, "nobody", nobody, at)
	}
	if _, err := before.Candidates(t.Context(), "orders"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a client without credentials can still read: %v", err)
	}
	if said := warnings(); strings.Contains(said, "can depose leaders") {
		t.Errorf("still it warns: %q", said)
	}
	must.Succeed(t, term.Resign(t.Context()))
}
