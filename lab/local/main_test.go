package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

var programs system.Programs

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("LAB_NAME") != "":
		standIn()
	case os.Getenv(victimDir) != "":
		victim()
	default:
		os.Exit(test(m))
	}
}

// test builds the programs and runs the tests.
func test(m *testing.M) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	packages := map[string][]string{
		"../..": {"./cmd/guard", "./cmd/leader"}, "..": {"./cmd/flawed-guard"},
	}
	return serverstest.WithPrograms(packages, func(dir string) int {
		programs = system.Programs{
			Guard: filepath.Join(dir, "guard"), Leader: filepath.Join(dir, "leader"),
			FlawedGuard: filepath.Join(dir, "flawed-guard"), Worker: self,
		}
		return serverstest.RunMain(m)
	})
}

// standIn stands in for a worker: it ticks. It reaches its failpoint at once, and may fork.
func standIn() {
	say := func(text string) {
		history.NewWriter(os.Stdout).Add(history.Event{
			Kind: history.Note, Process: os.Getenv("LAB_NAME"), Text: text,
		})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	say("environ " + fmt.Sprint(os.Environ()))
	if f := os.Getenv("LAB_FAILPOINT"); f != "" {
		say(history.Failpoint + f)
		os.Exit(137)
	}
	if os.Getenv("LAB_CHILD") == "fork" {
		fork(say)
	}
	fmt.Println("this is no event")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			say("goodbye")
			os.Exit(0)
		case <-tick.C:
			say("tick")
		}
	}
}

// fork starts a process that outlives its parent, and its parent's process group.
func fork(say func(string)) {
	orphan := exec.Command("sleep", "600")
	orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := orphan.Start(); err != nil {
		say("could not fork: " + err.Error())
		return
	}
	say(fmt.Sprintf("forked %d", orphan.Process.Pid))
}
