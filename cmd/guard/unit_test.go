package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// manager is the socket of a service manager.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	env  string
}

func managed(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(socketDir(t), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &manager{t, l, "NOTIFY_SOCKET=" + path}
}

// hears waits for a message that contains each of these. It fails on one that contains a text of
// never.
func (m *manager) hears(never string, parts ...string) {
	m.t.Helper()
	b := make([]byte, 8<<10)
	_ = m.conn.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		n, err := m.conn.Read(b)
		if err != nil {
			m.t.Fatalf("no message with %q: %v", parts, err)
		}
		message := string(b[:n])
		if never != "" && strings.Contains(message, never) {
			m.t.Fatalf("%q came before a message with %q", message, parts)
		}
		all := true
		for _, p := range parts {
			all = all && strings.Contains(message, p)
		}
		if all {
			return
		}
	}
}

func hangUp(t *testing.T) {
	t.Helper()
	must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestTheServiceManagerHearsOfTheWholeLife(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	m := managed(t)
	r := serving(t, append(env, m.env, "WATCHDOG_USEC=30000", "GUARD_DRAIN_DELAY=1ms")...)
	m.hears("", "READY=1", "STATUS=Serving postgres at "+r.pg+", http at "+r.page)
	if c, err := net.Dial("tcp", r.page); err != nil {
		t.Errorf("it was ready before it listened: %v", err)
	} else {
		_ = c.Close()
	}
	m.hears("", "postgres is not ready", "guard install")
	m.hears("", "WATCHDOG=1")
	invoke(t, env, "install")
	r.ready(http.StatusOK)
	c, err := r.connect(1)
	must.Succeed(t, err)
	_, err = c.Exec(t.Context(), "begin")
	must.Succeed(t, err)
	hangUp(t)
	m.hears("READY=1", "RELOADING=1", "MONOTONIC_USEC=")
	m.hears("", "READY=1", "STATUS=Serving")
	r.stop()
	m.hears("", "STOPPING=1", "EXTEND_TIMEOUT_USEC=20001000")
	m.hears("", "WATCHDOG=1") // as long as a transaction is open
	if _, err := c.Exec(t.Context(), "commit"); err != nil {
		t.Error(err)
	}
}

func TestWithADrainDelayReadinessGoesFirst(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	r := serving(t, append(env, "GUARD_DRAIN_DELAY=3s")...)
	r.ready(http.StatusOK)
	idle, err := r.connect(1)
	must.Succeed(t, err)
	r.stop()
	begin := time.Now()
	if body := r.ready(http.StatusServiceUnavailable); !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz says %s", body)
	}
	if _, text := r.get(t.Context(), "/metrics"); !strings.Contains(text,
		`ringfence_ready{protocol="postgres"} 0`) {
		t.Errorf("metrics: %s", text)
	}
	_, connected := r.connect(1)
	_, asked := idle.Exec(t.Context(), "select 1")
	if took := time.Since(begin); took < 3*time.Second && (connected != nil || asked != nil) {
		t.Errorf("during the delay: a new client: %v; an idle one: %v", connected, asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = idle.WaitForNotification(ctx)
	wantCode(t, err, "57P01")
	if code := <-r.exited; code != cli.Done {
		t.Errorf("exit code %d", code)
	}
	r.exited <- cli.Done
}

func TestAReloadTakesWhatItCanAndNamesTheRest(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	authority := serverstest.NewAuthority(t)
	first, second, third := authority.Issue("first"), authority.Issue("second"),
		authority.Issue("third")
	file := filepath.Join(t.TempDir(), "guard.env")
	settings := func(level string, p serverstest.Pair, more string) {
		write(t, file, fmt.Sprintf("# of the "+
			"test\nGUARD_LOG='%s'\nGUARD_TLS_CERT=%s\nGUARD_TLS_KEY=%s\n%s\n",
			level, p.CertFile, p.KeyFile, more))
	}
	settings("info", first, "")
	m := managed(t)
	r := serving(t, append(env, m.env, "GUARD_SETTINGS_FILE="+file, "GUARD_ISSUER=unverified")...)
	r.ready(http.StatusOK)
	shows := func(want string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(),
			fmt.Sprintf("postgres://app@%s/postgres?sslmode=verify-full&sslrootcert=%s&"+
				"options=-c%%20fence.orders%%3D5", r.pg, authority.File))
		must.Succeed(t, err)
		defer c.Close(context.Background())
		got, ok := tlsName(c)
		if !ok || got != want {
			t.Errorf("the certificate is of %q, want %q", got, want)
		}
	}
	shows("first")
	// a debug line
	admitted := func() int { return strings.Count(r.log.String(), `"event":"admitted"`) }

	settings("debug", second, "GUARD_MAX_LOGINS=7\nGUARD_STALE_RECHECK=2s\nGUARD_ISSUER=of-the-file")
	hangUp(t)
	m.hears("", "RELOADING=1")
	m.hears("", "READY=1")
	before := admitted()
	shows("second")
	if admitted() <= before {
		t.Error("the log level is not in effect")
	}
	awaitMetrics(t, r, `ringfence_connections_limit{protocol="postgres",state="login"} 7`)
	log := r.log.String()
	for _, want := range []string{
		`"changed":["GUARD_TLS_CERT","GUARD_TLS_KEY","GUARD_MAX_LOGINS","GUARD_LOG"]`,
		`"settings":["GUARD_STALE_RECHECK"]`, // the issuer is set in the environment
	} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is not in the log:\n%s", want, log)
		}
	}

	broken := third
	broken.KeyFile = first.KeyFile
	settings("info", broken, "")
	hangUp(t)
	m.hears("", "READY=1", "the last reload failed", "GUARD_TLS_CERT")
	before = admitted()
	shows("second")
	if admitted() <= before {
		t.Error("the level of a reload that failed is in effect")
	}
	write(t, file, "GUARD_LGO=debug\nPATH=/bin\nGUARD_TLS_KEY='x\n")
	hangUp(t)
	m.hears("", "READY=1", "the last reload failed", "line 2", "line 3")
	settings("info", third, "")
	hangUp(t)
	m.hears("failed", "RELOADING=1")
	m.hears("failed", "READY=1")
	shows("third")
}

// tlsName returns the common name of the certificate that the server showed.
func tlsName(c *pgx.Conn) (string, bool) {
	encrypted, ok := c.PgConn().Conn().(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return "", false
	}
	return encrypted.ConnectionState().PeerCertificates[0].Subject.CommonName, true
}

func TestTheEnvironmentComesBeforeTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "guard.env")
	write(t, file, "GUARD_POSTGRES_UPSTREAM=postgres://h/db\nGUARD_MAX_LOGINS=7\nGUARD_LOG=warn\n; "+
		"a comment\n\n"+
		`GUARD_ISSUER="of the file"`)
	c, err := load([]string{"GUARD_SETTINGS_FILE=" + file, "GUARD_MAX_LOGINS=8", "GUARD_LOG="},
		served...)
	if err != nil || c.MaxLogins != 8 || c.Log.String() != "WARN" || c.Issuer != "of the file" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := load([]string{"GUARD_SETTINGS_FILE=/nowhere"}); err == nil ||
		!strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("without the file: %v", err)
	}
}
