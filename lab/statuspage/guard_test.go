package statuspage

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	coordinator "github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/browser"
)

// guard is a guard process in front of a Postgres and a Redis of its own.
type guard struct {
	t                     *testing.T
	postgres, redis, http string // its addresses
	env                   []string
	process               *exec.Cmd
	log                   bytes.Buffer
	server                *servers.Postgres

	etcd *servers.Etcd // nil without a coordinator
	co   elector.Coordinator
}

// elected is start with a coordinator.
func elected(t *testing.T) *guard {
	t.Helper()
	etcd := serverstest.Etcd(t, servers.EtcdOptions{})
	address := "etcd://" + etcd.Addr() + "/ringfence"
	co, err := coordinator.Open(t.Context(), address, coordinator.Options{SessionTimeout: time.Minute})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = co.Close() })
	g := start(t, "GUARD_COORDINATOR="+address)
	g.etcd, g.co = etcd, co
	return g
}

// lead wins the term of a resource, and opens a session under it.
func (g *guard) lead(resource, holder string) *fence.Term {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	term, err := g.co.Campaign(ctx, fence.Resource(resource), holder)
	must.Succeed(g.t, err)
	g.admitted(holder, resource+"="+term.Token().String())
	return term
}

// resign ends a term.
func (g *guard) resign(term *fence.Term) {
	g.t.Helper()
	must.Succeed(g.t, term.Resign(g.t.Context()))
}

func start(t *testing.T, more ...string) *guard {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	rd := serverstest.Redis(t, servers.RedisOptions{})
	pgtest.Exec(t, pg.URL("postgres", "postgres"), "create role guard login; create role app login")
	at := serverstest.FreeAddresses(t, 3)
	g := &guard{t: t, server: pg, postgres: at[0], redis: at[1], http: at[2], env: append(more,
		"GUARD_POSTGRES_LISTEN="+at[0], "GUARD_REDIS_LISTEN="+at[1], "GUARD_HTTP_LISTEN="+at[2],
		"GUARD_POSTGRES_UPSTREAM="+pg.URL("guard", "postgres"),
		"GUARD_POSTGRES_ADMIN="+pg.URL("postgres", "postgres"),
		"GUARD_REDIS_UPSTREAM="+rd.URL(),
	)}
	install := exec.CommandContext(t.Context(), program, "install")
	install.Env = g.env
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("guard install: %v\n%s", err, out)
	}
	g.serve()
	t.Cleanup(func() {
		g.stop()
		if t.Failed() {
			t.Log(g.log.String())
		}
	})
	return g
}

// serve starts the process and waits until it is ready.
func (g *guard) serve() {
	g.t.Helper()
	g.process = exec.Command(program, "serve")
	g.process.Env = g.env
	g.process.Stderr = &g.log
	must.Succeed(g.t, g.process.Start())
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.http+"/readyz", nil)
		must.Succeed(g.t, err)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				http.DefaultClient.CloseIdleConnections()
				return
			}
		}
		if ctx.Err() != nil {
			g.t.Fatalf("the guard is not ready: %v\n%s", err, g.log.String())
		}
	}
}

// stop ends the process with SIGTERM and waits for it. A second call does nothing.
func (g *guard) stop() {
	if g.process == nil {
		return
	}
	_ = g.process.Process.Signal(syscall.SIGTERM)
	if err := g.process.Wait(); err != nil {
		g.t.Errorf("guard: %v", err)
	}
	g.process = nil
}

// connect opens a Postgres session with the name of its application.
func (g *guard) connect(app string, claims ...string) (*pgx.Conn, error) {
	g.t.Helper()
	var options []string
	for _, c := range claims {
		options = append(options, "-c fence."+c)
	}
	escape := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	address := fmt.Sprintf("postgres://app@%s/postgres?application_name=%s&options=%s", g.postgres,
		escape(app), escape(strings.Join(options, " ")))
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, address)
	if err == nil {
		g.t.Cleanup(func() { _ = c.Close(context.WithoutCancel(g.t.Context())) })
	}
	return c, err
}

// admitted is connect, and must succeed.
func (g *guard) admitted(app string, claims ...string) *pgx.Conn {
	g.t.Helper()
	c, err := g.connect(app, claims...)
	must.Succeed(g.t, err)
	return c
}

// refused is connect, and must be refused.
func (g *guard) refused(app string, claims ...string) {
	g.t.Helper()
	if _, err := g.connect(app, claims...); err == nil {
		g.t.Fatalf("%s was admitted with %v", app, claims)
	}
}

// claim opens a Redis session and returns the answer to its claim.
func (g *guard) claim(resource string, token int) (answer string) {
	g.t.Helper()
	c, err := net.Dial("tcp", g.redis)
	must.Succeed(g.t, err)
	g.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "FENCE %s %d\r\n", resource, token)
	answer, err = bufio.NewReader(c).ReadString('\n')
	must.Succeed(g.t, err)
	return answer
}

// open opens the page, which must load nothing from another host, and waits for its first state.
func (g *guard) open(width, height int64, options ...chromedp.EmulateViewportOption) *browser.Tab {
	g.t.Helper()
	own := "http://" + g.http + "/"
	p := browser.Open(g.t, own, func(address string) bool { return strings.HasPrefix(address, own) },
		width, height, options...)
	p.Wait(`document.querySelector('#link.live')`)
	return p
}
