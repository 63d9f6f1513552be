package jobspage

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/browser"
)

// site is a server of jobs, with workers.
type site struct {
	t    *testing.T
	env  []string
	http string // the server's address
}

func newSite(t *testing.T, env ...string) *site {
	t.Helper()
	root := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	s := &site{t: t, http: serverstest.FreeAddresses(t, 1)[0], env: append([]string{
		"PATH=" + os.Getenv("PATH"), "LEADER_SESSION_TIMEOUT=4s",
		"LEADER_COORDINATOR=etcd://" + serverstest.SharedEtcd(t).Addr() + "/" + root,
	}, env...)}
	return s
}

// process is one leader process.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  bytes.Buffer
	wait func() error
}

// start starts leader. The test's end kills it.
func (s *site) start(env []string, args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: exec.Command(program, args...)}
	p.cmd.Env = append(append([]string{}, s.env...), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	must.Succeed(s.t, p.cmd.Start())
	p.wait = sync.OnceValue(p.cmd.Wait)
	s.t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if s.t.Failed() {
			s.t.Logf("%v:\n%s", p.cmd.Args[1:], p.log.String())
		}
	})
	return p
}

// end sends a signal and waits for the process.
func (p *process) end(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig); _ = p.wait() }

// serve starts the server and waits until it answers.
func (s *site) serve(groups ...string) *process {
	s.t.Helper()
	p := s.start(nil, append([]string{"serve", "--listen", s.http}, groups...)...)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+"/", nil)
		must.Succeed(s.t, err)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			http.DefaultClient.CloseIdleConnections()
			return p
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the server does not answer: %v", err)
		}
	}
}

// work starts a worker.
func (s *site) work(name string, flags ...string) *process {
	s.t.Helper()
	return s.start([]string{"LEADER_HOLDER=" + name},
		append(append([]string{"work"}, flags...), "nightly")...)
}

// submit hands a job in, and returns its ID.
func (s *site) submit(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"submit", "nightly"}, args...)...)
	cmd.Env = s.env
	id, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("submit %v: %v", args, err)
	}
	return strings.TrimSpace(string(id))
}

// shell hands a job in that runs a script.
func (s *site) shell(script string, flags ...string) string {
	s.t.Helper()
	return s.submit(append(flags, "--", "sh", "-c", script)...)
}

// open opens the page, which must load nothing from another host, and must not name the secret in
// an address.
func (s *site) open(width, height int64, options ...chromedp.EmulateViewportOption) *browser.Tab {
	s.t.Helper()
	own := "http://" + s.http + "/"
	return browser.Open(s.t, own, func(address string) bool {
		return strings.HasPrefix(address, own) && !strings.Contains(address, secret)
	}, width, height, options...)
}

// secret is the token of the server in tests that have one.
const secret = "s3cret-t0ken"
