package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// victimDir in the environment makes the test binary a lab that will be killed. Its value is the
// directory for logs, a colon and the guard program.
const victimDir = "LAB_TEST_VICTIM"

// victim builds a system, pauses half of it, prints how to find it, and waits for its own end. The
// process that worker-1 forks is not paused, and its parents end.
func victim() {
	f := strings.Split(os.Getenv(victimDir), ":")
	self, _ := os.Executable()
	forked := make(chan struct{})
	s, err := Build(context.Background(), system.Build{
		Topology: scenario.Topology{CoordinatorServers: 1, Guards: 1, Workers: 2, Session: time.Second},
		Workload: scenario.Workload{Child: "fork"}, Dir: f[0],
		Programs: system.Programs{Guard: f[1], Worker: self}, Events: func(e history.Event) {
			if e.Process == "worker-1" && strings.HasPrefix(e.Text, "forked") {
				close(forked)
			}
		},
	})
	for _, name := range []string{"worker-1", "worker-2"} {
		if err == nil {
			err = s.Start(context.Background(), name)
		}
	}
	for _, name := range []string{"worker-2", "guard-1", "postgres"} {
		if err == nil {
			err = s.Pause(context.Background(), name)
		}
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	<-forked
	fmt.Println("up", s.tag.value, s.pg.PID(), s.redis.PID(), s.elects.(zooKeeper).Nodes[0].PID())
	fmt.Println(s.pg.Dir(), s.redis.Dir(), filepath.Dir(s.elects.(zooKeeper).Nodes[0].Dir()),
		dirOf(s, "guard-1"), dirOf(s, "worker-1"), dirOf(s, "worker-2"))
	select {}
}

func dirOf(s *System, program string) string {
	return s.processes[program].(*servers.Program).Dir()
}

func TestNothingOutlivesALabThatIsKilled(t *testing.T) {
	cmd := exec.Command(programs.Worker)
	cmd.Env = append(os.Environ(), victimDir+"="+t.TempDir()+":"+programs.Guard)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	watchdog := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	lines := bufio.NewReader(out)
	var value string
	var pids [3]int
	line, _ := lines.ReadString('\n')
	if n, _ := fmt.Sscanf(line, "up %s %d %d %d", &value, &pids[0], &pids[1], &pids[2]); n != 4 {
		t.Fatalf("the lab printed %q", line)
	}
	dirs, _ := lines.ReadString('\n')
	defer func() {
		for _, dir := range strings.Fields(dirs) { // a killed lab leaves its directories
			must.Report(t, os.RemoveAll(dir))
		}
	}()
	tagged := &tag{value: value}
	if n := len(tagged.processes()); n < 2 {
		t.Fatalf("%d processes have the tag", n)
	}
	must.Succeed(t, cmd.Process.Kill())
	eventually(t, "the end of all processes that the lab had started", func() bool {
		left := tagged.processes()
		for _, pid := range pids {
			if alive(pid) {
				left = append(left, pid)
			}
		}
		return len(left) == 0
	})
}
