package zookeeper_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// leaderEnv makes the test binary a leader at this URL that watches only its journal.
const leaderEnv = "RINGFENCE_TEST_LEADER"

// leadAnyway publishes as fast as it can, even if its term is lost, and prints how it ended.
func leadAnyway(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// This timeout outlives a stall of the machine.
	c, err1 := elections.Open(ctx, url, elections.Options{SessionTimeout: 4 * time.Second})
	// This one outlives the pause of the process.
	j, err2 := zookeeper.Open(ctx, url, zookeeper.Options{SessionTimeout: sessionTimeout})
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	term, err := c.Campaign(ctx, orders, "paused")
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	for n := int64(1); ; n++ {
		err := j.Publish(ctx, term.Claim(), version(n, term.Claim()))
		switch {
		case err != nil:
			fmt.Println("ended: stale is", errors.Is(err, fence.ErrStale), "after", n-1, "error:", err)
			return 0
		case n == 10:
			fmt.Println("leads")
		}
	}
}

// The leader is a separate process, stopped while it publishes.
func TestALeaderThatIsPausedPastItsSessionIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{})
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), leaderEnv+"="+b.url)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	out := bufio.NewReader(stdout)
	if line, err := out.ReadString('\n'); line != "leads\n" {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fresh := b.Lead(orders) // once the other's session has expired
	taken, _, err := j.Take(t.Context(), fresh, nightly, 0)
	if err != nil || taken.Version < 10 || taken.Holder != "paused" {
		t.Fatalf("took %+v, %v", taken, err)
	}
	last := version(taken.Version+1, fresh)
	publish(t, j, fresh, last)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); !strings.HasPrefix(line, "ended: stale is true") {
		t.Errorf("the paused leader: %q, %v", line, err)
	}
	stored(t, j, last)
	if got, _, err := j.Take(t.Context(), fresh, nightly, 0); err != nil || got.Nonce != last.Nonce {
		t.Errorf("took %+v, %v", got, err)
	}
}
