package units

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// What the command of a unit does: it says what it was started with, and ends as a file says.
const command = `env > env; setsid sleep 1000 & echo $! > left; read -r code < ends 2> /dev/null && exit "$code"; exec sleep 1000`

func TestTheUnitOfACommand(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	const unit = "ringfence-leader-run@orders"
	m.write("command", "#!/bin/sh\ncd "+m.dir+"/writes\n"+command)
	m.write("writes/.keep", "")
	// The system is read-only for the unit.
	m.write(".config/systemd/user/"+unit+".service.d/writes.conf", "[Service]\nReadWritePaths="+m.dir+
		"/writes\n")
	settings := fmt.Sprintf("LEADER_COORDINATOR=etcd://%s/%s\nLEADER_SESSION_TIMEOUT=20s\n",
		serverstest.SharedEtcd(t).Addr(), strings.ToLower(t.Name()))
	m.write("leader.env", settings)
	set := func(more string) { m.write("leader-run-orders.env", "COMMAND="+m.dir+"/command\n"+more) }
	set("")
	m.must("start", unit)
	m.await(unit, "StatusText", "Leading orders under token ")
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(m.dir, "writes", name))
		return string(b)
	}
	leadertest.Eventually(t, "the command runs", func() bool { return read("left") != "" })
	for _, private := range []string{"NOTIFY_SOCKET", "WATCHDOG_"} {
		if strings.Contains(read("env"), private) {
			t.Errorf("the command has the service manager's %s", private)
		}
	}
	m.beats(unit)

	// The main process dies. What the command has started ends with it, also out of its process group.
	var left int
	_, err := fmt.Sscan(read("left"), &left)
	must.Succeed(t, err)
	m.must("kill", "--signal=KILL", "--kill-who=main", unit)
	leadertest.Eventually(t, "it ends with the unit", func() bool { return !leadertest.Alive(left) })
	m.await(unit, "StatusText", "Leading")

	// A command that fails is started again, whatever its code is, and for ever.
	m.write("writes/ends", "2\n")
	m.must("restart", "--no-block", unit)
	m.restartsPast(unit)
	must.Succeed(t, os.Remove(filepath.Join(m.dir, "writes/ends")))
	m.await(unit, "StatusText", "Leading")

	// A stop is no failure.
	m.must("stop", unit)
	if state, result := m.show(unit, "ActiveState"), m.show(unit, "Result"); state != "inactive" ||
		result != "success" {
		t.Errorf("after a stop it is %s, %s", state, result)
	}

	// A port that is taken for a while.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	set("LEADER_HTTP_LISTEN=" + taken.Addr().String() + "\n")
	_, _ = m.systemctl("start", unit)
	m.restartsPast(unit)
	_ = taken.Close()
	m.await(unit, "StatusText", "Leading")

	// Wrong settings, which only a person can change.
	set("LEADER_SESSION_TIMEOUT=never\n")
	_, _ = m.systemctl("restart", unit)
	m.await(unit, "ActiveState", "failed")
	if code, n := m.show(unit, "ExecMainStatus"), m.show(unit, "NRestarts"); code != "116" ||
		n != "0" {
		t.Errorf("with a wrong setting: code %s, started again %s times", code, n)
	}
}

// A standby is ready, and beats as a leader does.
func TestTheUnitOfAStandby(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	const unit = "ringfence-leader-run@orders"
	coordinator := fmt.Sprintf("etcd://%s/%s", serverstest.SharedEtcd(t).Addr(),
		strings.ToLower(t.Name()))
	m.write("leader.env", "LEADER_COORDINATOR="+coordinator+"\n")
	m.write("leader-run-orders.env", "COMMAND=/bin/sleep 1000\n")
	m.write("leader-run-first.env", "COMMAND="+m.dir+"/leader run orders -- /bin/sleep 1000\n")
	m.must("start", "ringfence-leader-run@first") // its command leads orders
	leadertest.Eventually(t, "another one leads", func() bool {
		return exec.Command("env", "LEADER_COORDINATOR="+coordinator, m.dir+"/leader", "status",
			"orders").Run() == nil
	})
	m.must("start", unit)
	m.await(unit, "StatusText", "Standing for election: orders")
	m.beats(unit)
	if n := m.show(unit, "NRestarts"); n != "0" {
		// the service manager has it started again if it does not beat in time
		t.Errorf("started again %s times", n)
	}
	m.must("stop", "ringfence-leader-run@first")
	m.await(unit, "StatusText", "Leading orders under token ")
	m.must("stop", unit)
}

func TestTheUnitsOfTheOthers(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	m.write("leader.env", fmt.Sprintf("LEADER_COORDINATOR=etcd://%s/%s\n",
		serverstest.SharedEtcd(t).Addr(), strings.ToLower(t.Name())))
	m.write("leader-serve-nightly.env", "FLAGS=--listen 127.0.0.1:0\n")
	m.write("guard.env",
		"GUARD_POSTGRES_LISTEN=127.0.0.1:0\nGUARD_HTTP_LISTEN=127.0.0.1:0\nGUARD_POSTGRES_UPSTREAM="+
			pg.URL("postgres", "postgres")+"\n")
	for unit, status := range map[string]string{
		"ringfence-leader-work@nightly":  "Working for nightly",
		"ringfence-leader-serve@nightly": "Serving",
		"ringfence-agent@billing":        "Serving", "ringfence-guard": "",
	} {
		m.must("start", unit)
		m.await(unit, "StatusText", status)
		m.beats(unit)
		if unit == "ringfence-guard" {
			m.must("reload", unit)
			m.await(unit, "SubState", "running")
		}
		m.must("stop", unit)
		if result, n := m.show(unit, "Result"), m.show(unit, "NRestarts"); result != "success" ||
			n != "0" {
			t.Errorf("%s: %s, started again %s times", unit, result, n)
		}
	}
}
