package main

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// socketDir is a directory whose path is short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guard")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// stale leaves a socket behind, as a killed guard does.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.Succeed(t, err)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

func TestAGuardListensOnUnixSockets(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	rd := serverstest.Redis(t, servers.RedisOptions{})
	dir := socketDir(t)
	pgSocket, redisSocket := filepath.Join(dir, ".s.PGSQL.6432"), filepath.Join(dir, "redis")
	env = append(env, "GUARD_REDIS_UPSTREAM="+rd.URL())
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatal(errs)
	}
	stale(t, pgSocket)
	env = append(env, "GUARD_POSTGRES_LISTEN=unix:"+pgSocket, "GUARD_REDIS_LISTEN=unix:"+redisSocket)
	log := &syncBuffer{}
	ctx, stop := context.WithCancel(t.Context())
	exited := make(chan int, 1)
	go func() { exited <- run(ctx, []string{"serve"}, env, log, log) }()
	defer func() {
		stop()
		if code := <-exited; code != cli.Done {
			t.Errorf("exit code %d: %s", code, log)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}()
	if !poll.Until(30*time.Second, func() bool {
		return strings.Contains(log.String(), `"address":"unix:`+redisSocket)
	}) {
		t.Fatalf("it does not listen: %s", log)
	}

	for _, path := range []string{pgSocket, redisSocket} {
		if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|socketMode {
			t.Errorf("%v, %v", info, err)
		}
	}
	c, err := pgx.Connect(t.Context(),
		"host="+dir+" port=6432 user=app dbname=postgres options='-c fence.orders=5'")
	must.Succeed(t, err)
	defer c.Close(t.Context())
	r := driver.NewClient(&driver.Options{
		Network: "unix", Addr: redisSocket, ClientName: "fence.orders=5", MaxRetries: -1,
	})
	defer r.Close()
	must.Report(t, r.Set(t.Context(), "a", 1, 0).Err())
	if _, out, _ := invoke(t, env, "status"); !strings.Contains(out, "app@[local]") ||
		strings.Count(out, "[local]") != 2 {
		t.Errorf("the holders:\n%s", out)
	}
	if code, _, errs := invoke(t, env, "serve"); code != cli.Error ||
		!strings.Contains(errs, "a running process listens on "+pgSocket) {
		t.Errorf("a second guard: exit %d, %s", code, errs)
	}
	must.Succeed(t, c.Ping(t.Context()))
}

func TestTheSettingsCheckAcceptsAddressesThatCanBeListenedOn(t *testing.T) {
	t.Parallel()
	dir := socketDir(t)
	fits := dir + "/" + strings.Repeat("s", maxSocketPath-len(dir)-1)
	for address, says := range map[string]string{
		"127.0.0.1:0": "", "[::1]:0": "", "localhost:0": "", "unix:" + fits: "",
		"unix:" + fits + "s": "at most", "unix:s": "begin with /", "unix:": "begin with /",
		"unix:@name": "begin with /", "unix:" + dir + "/": "directory",
		"6432": "is not an address", "127.0.0.1:port-of-none": "is not an address",
		"127.0.0.1:70000": "is not an address",
	} {
		err := checkListen(address)
		if err == nil != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
		l, lerr := listen(t.Context(), address, keepalive.Timeouts{})
		if lerr == nil {
			_ = l.Close()
		}
		if err == nil && lerr != nil {
			t.Errorf("%s passes, and cannot be listened on: %v", address, lerr)
		}
	}
	code, _, errs := invoke(t, []string{
		"GUARD_REDIS_UPSTREAM=redis://h/0", "GUARD_HTTP_LISTEN=unix:/run/page",
	}, "serve")
	if code != cli.Usage || !strings.Contains(errs, "GUARD_HTTP_LISTEN") ||
		!strings.Contains(errs, "not served on a Unix socket") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
