package units

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

const systemd = "/lib/systemd/systemd"

// manager is a service manager.
type manager struct {
	t   *testing.T
	dir string // has the programs and their settings
	pid int
}

// newManager starts a service manager whose /run is its own: systemd wants to see there that it has
// booted the machine. Its control group is its own, too: a unit's processes are found by the unit's
// name there, and a manager that stops orders.service would take another manager's with it.
func newManager(t *testing.T) *manager {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs, and needs servers")
	}
	if _, err := os.Stat(systemd); err != nil || os.Getuid() != 0 {
		t.Skip("needs systemd, and root")
	}
	// PrivateTmp=yes and ProtectHome=yes of the units hide other places.
	dir, err := os.MkdirTemp("/var/lib", "ringfence-test-")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	out, err := exec.Command("go", "build", "-o", dir+"/", "../../../cmd/leader",
		"../../../cmd/guard").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := &manager{t: t, dir: dir}
	m.copyUnits()
	enter := "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && mkdir -m 700 -p /run/user/0"
	for _, group := range m.controlGroups() {
		enter += " && echo $$ > " + group + "/cgroup.procs"
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", enter+` && exec "$@"`, "sh",
		"env", "-i", "PATH="+os.Getenv("PATH"), "HOME="+dir, "XDG_RUNTIME_DIR=/run/user/0", systemd,
		"--user", "--log-target=console")
	log := leadertest.NewScreen()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	m.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_, _ = m.systemctl("exit")
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			units, _ := os.ReadFile(m.log())
			t.Logf("%s\n%s", log, units)
		}
	})
	leadertest.Eventually(t, "the service manager answers", func() bool {
		_, err := m.systemctl("list-units")
		return err == nil
	})
	return m
}

// controlGroups makes a control group in each hierarchy that systemd may use: the only one, or in
// the hybrid layout the one of version 1 and the one of version 2.
func (m *manager) controlGroups() []string {
	m.t.Helper()
	var groups []string
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd",
		"/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(hierarchy + "/cgroup.procs"); err != nil {
			continue
		}
		group := filepath.Join(hierarchy, filepath.Base(m.dir))
		if err := os.Mkdir(group, 0o755); err != nil {
			m.t.Skip(err)
		}
		m.t.Cleanup(func() { // the units' groups are below it
			_ = exec.Command("find", group, "-depth", "-type", "d", "-delete").Run()
		})
		groups = append(groups, group)
	}
	return groups
}

// beyond switches off what a user's service manager has no place for.
const beyond = "ProtectHome=no\nProtectKernelTunables=no\nProtectKernelLogs=no\n"

// copyUnits copies the packaged units, and changes where programs and settings are, the user, and
// times.
func (m *manager) copyUnits() {
	m.t.Helper()
	to := filepath.Join(m.dir, ".config/systemd/user")
	sockets, _ := filepath.Glob("../../../packaging/*.socket")
	for _, name := range sockets {
		b, err := os.ReadFile(name)
		must.Succeed(m.t, err)
		m.write(filepath.Join(to, filepath.Base(name)), string(b))
		m.write(filepath.Join(to, filepath.Base(name)+".d", "test.conf"),
			"[Socket]\nSocketUser=\nSocketGroup=\n")
	}
	units, err := filepath.Glob("../../../packaging/*.service")
	if err != nil || len(units) == 0 {
		m.t.Fatalf("no units: %v", err)
	}
	for _, name := range units {
		b, err := os.ReadFile(name)
		must.Succeed(m.t, err)
		changes := "[Service]\nUser=\nGroup=\nRestartSec=100ms\nWatchdogSec=10s\nStandardError=append:" +
			m.log() + "\n" + beyond
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(line, "=")
			moved := strings.NewReplacer("/usr/bin/", m.dir+"/", "/etc/ringfence/", m.dir+"/").Replace(value)
			if moved == value {
				continue
			}
			if !strings.Contains(changes, "\n"+key+"=\n") {
				changes += key + "=\n"
			}
			changes += key + "=" + moved
		}
		m.write(filepath.Join(to, filepath.Base(name)), string(b))
		m.write(filepath.Join(to, filepath.Base(name)+".d", "test.conf"), changes)
	}
}

// log has what the units print.
func (m *manager) log() string { return filepath.Join(m.dir, "units.log") }

func (m *manager) write(name, text string) {
	m.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.dir, name)
	}
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o755)
	}
	must.Succeed(m.t, err)
}

func (m *manager) systemctl(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(m.pid), "--mount",
		"env", "HOME=" + m.dir, "XDG_RUNTIME_DIR=/run/user/0", "systemctl", "--user"}, args...)...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must runs systemctl, which has to succeed.
func (m *manager) must(args ...string) string {
	m.t.Helper()
	out, err := m.systemctl(args...)
	if err != nil {
		status, _ := m.systemctl("status", args[len(args)-1])
		m.t.Fatalf("systemctl %v: %v: %s\n%s", args, err, out, status)
	}
	return out
}

// await waits until a property of a unit has a value.
func (m *manager) await(unit, property, value string) {
	m.t.Helper()
	leadertest.Eventually(m.t, fmt.Sprintf("%s: %s=%s", unit, property, value), func() bool {
		return strings.HasPrefix(m.show(unit, property), value)
	})
}

func (m *manager) show(unit, property string) string {
	m.t.Helper()
	return m.must("show", "--value", "--property", property, unit)
}

// restartsPast waits for more restarts than the default limit (StartLimitBurst=5) allows.
func (m *manager) restartsPast(unit string) {
	m.t.Helper()
	const limit = 5
	leadertest.Eventually(m.t, unit+" is started again and again", func() bool {
		n, _ := strconv.Atoi(m.show(unit, "NRestarts"))
		return n > limit
	})
}

// beats waits until the unit has proved twice that it works.
func (m *manager) beats(unit string) {
	m.t.Helper()
	seen := map[string]bool{}
	leadertest.Eventually(m.t, unit+" beats", func() bool {
		seen[m.show(unit, "WatchdogTimestampMonotonic")] = true
		time.Sleep(100 * time.Millisecond)
		return len(seen) > 2
	})
}
