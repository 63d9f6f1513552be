package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/elections"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// longerThanPatience is a session timeout that no test outlives, so nothing that happens has waited
// for it.
const longerThanPatience = leadertest.Patience + 10*time.Second

// onEveryCoordinator runs a test on each coordinator.
func onEveryCoordinator(
	timeout time.Duration, test func(*testing.T, *site),
) func(*testing.T, string) {
	return func(t *testing.T, program string) {
		for name, coordinator := range elections.Coordinators {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, siteAt(t, program, coordinator.Shared(t), timeout))
			})
		}
	}
}

func testCoordinatorPaused(t *testing.T, program string) {
	for name, coordinator := range elections.Coordinators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, server := coordinator.Own(t)
			s := siteAt(t, program, url, 20*time.Second) // long enough to resume it in time
			l := s.sleeper()
			pid := l.pid("pid")
			must.Succeed(t, server.Pause())
			leadertest.Eventually(t, "the command is paused", func() bool {
				return leadertest.Halted(pid)
			})
			must.Succeed(t, server.Resume())
			leadertest.Eventually(t, "the command continues", func() bool {
				return !leadertest.Halted(pid)
			})
			if !leadertest.Alive(pid) {
				t.Error("it was ended instead")
			}
		})
	}
}

func testNoCoordinator(t *testing.T, program string) {
	for _, scheme := range coordinators.All.Schemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := &site{t: t, program: program, env: []string{
				"PATH=" + os.Getenv("PATH"), "LEADER_COORDINATOR=" + scheme + "://u:s3cr3t@127.0.0.1:1/x",
				"LEADER_SESSION_TIMEOUT=2s",
			}}
			for _, args := range [][]string{
				{"status", "orders"}, {"watch", "orders"}, {"resign", "orders"},
				{"run", "orders", "--", "true"},
			} {
				l := s.start(args...)
				l.exits(own(args[0], cli.Error))
				if l.out.String() != "" || !strings.Contains(l.log.String(), "127.0.0.1:1") ||
					strings.Contains(l.log.String(), "s3cr3t") {
					t.Errorf("%v: stdout %q, stderr %q", args, l.out, l.log)
				}
			}
		})
	}
}
