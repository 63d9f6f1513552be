package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

// victimEnv makes the test binary a victim: it starts servers, prints their processes and
// directories, and waits to be killed.
const victimEnv = "RINGFENCE_TEST_VICTIM"

type leftovers struct {
	Members []Member
	Dirs    []string
}

// Member is a member with exported fields, for JSON.
type Member struct {
	PID   int
	Start string
}

func init() {
	if os.Getenv(victimEnv) != "" {
		victim()
	}
}

func victim() {
	ctx := context.Background()
	running, err1 := StartPostgres(ctx, PostgresOptions{})
	paused, err2 := StartPostgres(ctx, PostgresOptions{})
	redis, err3 := StartRedis(ctx, RedisOptions{})
	if err1 != nil || err2 != nil || err3 != nil || paused.Pause() != nil {
		fmt.Println("failed:", err1, err2, err3)
		os.Exit(1)
	}
	var l leftovers
	for _, p := range []*Process{&running.Process, &paused.Process, &redis.Process} {
		l.Dirs = append(l.Dirs, p.Dir())
		for _, m := range p.live().family() {
			l.Members = append(l.Members, Member{m.pid, m.start})
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(l)
	select {}
}

func TestKilledTestLeavesNoProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	var l leftovers
	if err == nil {
		err = json.Unmarshal([]byte(line), &l)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || len(l.Members) < 10 {
		t.Fatal(line, err)
	}
	for _, m := range l.Members {
		eventually(t, fmt.Sprint("process gone: ", m), func() bool {
			return !member{pid: m.PID, start: m.Start}.exists()
		})
	}
	for _, dir := range l.Dirs { // only these stay behind
		removeSharedMemory(filepath.Join(dir, "data"))
		must.Succeed(t, os.RemoveAll(dir))
	}
}
