package endtoend

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// TestDriversOfAJarWithAFixedURLAreFencedByTheCarrier: the jar knows one address, does not stop
// when it is asked to, and has half a minute for that. The next leader does not wait for it.
func TestDriversOfAJarWithAFixedURLAreFencedByTheCarrier(t *testing.T) {
	t.Parallel()
	java := jdbc(t)
	if java == nil {
		missing(t, "java")
	}
	s := newStackWith(t, "")
	g := s.guard()
	at := serverstest.FreeAddresses(t, 1)[0]
	jar := vendorJar(t, at)
	said := filepath.Join(t.TempDir(), "said")
	cmd := s.carries(g, "trap '' TERM; setsid "+java[0]+" -cp "+java[2]+":"+jar+" Vendor >"+said+
		" 2>&1; sleep 600")
	cmd.Env = append(cmd.Env, "LEADER_CARRY=postgres="+at, "LEADER_GRACE=30s",
		"LEADER_SESSION_TIMEOUT=2m")
	cmd.Stderr = t.Output()
	must.Succeed(t, cmd.Start())
	for len(s.column("select note from ledger")) < 3 {
		if s.ctx.Err() != nil {
			t.Fatal("the jar does not write")
		}
		time.Sleep(pollEvery)
	}
	s.depose()
	next := s.carries(g,
		`psql -Xq -c "insert into ledger (token, note) values (current_setting('fence.orders')::bigint, 'next')"`)
	if out, err := next.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != cli.OwnOffset+cli.Lost {
		t.Error(err)
	}
	after := s.column("select note from ledger where n > (select n from ledger where note = 'next')")
	tokens := s.column("select distinct token from ledger")
	if len(after) > 0 || len(tokens) != 2 {
		t.Errorf("written after the next leader: %q; tokens: %q", after, tokens)
	}
	if text, err := os.ReadFile(said); err != nil || !strings.Contains(string(text), "SQLException") {
		t.Errorf("the jar says %q, %v", text, err)
	}
}

// vendorJar builds the jar, with the address in it.
func vendorJar(t *testing.T, address string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "drivers", "Vendor.java"))
	must.Succeed(t, err)
	_, port, err := net.SplitHostPort(address)
	must.Succeed(t, err)
	dir := t.TempDir()
	source := filepath.Join(dir, "Vendor.java")
	if err := os.WriteFile(source, []byte(strings.ReplaceAll(string(text), "PORT", port)),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"javac", "-d", dir, source},
		{"jar", "cf", filepath.Join(dir, "vendor.jar"), "-C", dir, "Vendor.class"}} {
		if out, err := exec.CommandContext(t.Context(), command[0],
			command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return filepath.Join(dir, "vendor.jar")
}
