package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
)

const asksForOrders = `{"resource":"orders","holder":"one"}`

// dials stands for election by a connection that the test reads by itself.
func (s *served) dials() net.Conn {
	s.t.Helper()
	c, err := net.Dial("unix", s.path)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST /v1/terms HTTP/1.1\r\nHost: agent\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(asksForOrders), asksForOrders); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// It is no test, but the process that TestAClientThatIsPausedLosesItsTerm pauses.
func TestClientProcess(t *testing.T) {
	path := os.Getenv("AGENT_TEST_SOCKET")
	if path == "" {
		t.Skip("is run by another test")
	}
	s := &served{t: t, path: path}
	_, _ = io.Copy(os.Stdout, s.dials())
}

func TestAClientThatIsPausedLosesItsTerm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClientProcess$")
	cmd.Env = append(os.Environ(), "AGENT_TEST_SOCKET="+s.path)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	until := func(what What) {
		t.Helper()
		for lines.Scan() {
			var e Event
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Event == what {
				return
			}
		}
		t.Fatalf("the stream has ended before %s", what)
	}
	until(Alive)
	must.Succeed(t, cmd.Process.Signal(syscall.SIGSTOP))
	paused := time.Now()
	s.led("")
	if took := time.Since(paused); took > 2*s.agent.Session {
		// the session, and what a busy machine takes
		t.Errorf("a paused client has kept its term for %s", took)
	}
	must.Succeed(t, cmd.Process.Signal(syscall.SIGCONT))
	until(Lost)
}

// It reads what has come, every two thirds of a session.
func TestAClientThatReadsSlowlyKeepsItsTerm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.agent.Session = 3 * time.Second // the coordinator's is 10 s
	c := s.dials()
	s.led("one")
	token := ""
	for range 4 {
		time.Sleep(20 * time.Second / 3)
		_, err := c.Read(make([]byte, 64<<10))
		must.Succeed(t, err)
		all, err := s.other.Candidates(t.Context(), "orders")
		if err != nil || len(all) != 1 || token != "" && all[0].Token.String() != token {
			t.Fatalf("%v, %v; the first token was %s", all, err, token)
		}
		token = all[0].Token.String()
	}
}

func TestWhatIsUnreadDecides(t *testing.T) {
	const session = 9 * time.Second
	for name, c := range map[string]struct {
		unread []int // when the next event is sent; each is 1 long
		lost   bool
	}{
		"all":            {unread: []int{0, 0, 0, 0, 0, 0, 0, 0}},
		"all but one":    {unread: []int{1, 1, 1, 1, 1, 1, 1, 1}},
		"all but two":    {unread: []int{1, 2, 2, 2, 2, 2, 2, 2}},
		"nothing":        {unread: []int{1, 2, 3, 4, 5}, lost: true},
		"nothing from 3": {unread: []int{0, 0, 0, 1, 2, 3, 4}, lost: true},
		"every other":    {unread: []int{1, 0, 1, 0, 1, 0, 1, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			stored := 0
			x := client{unread: func() (int, bool) { return stored, true }}
			goesOn := true
			for _, n := range c.unread {
				if goesOn = x.goesOn(); !goesOn {
					break
				}
				stored++
				x.sent(time.Now().Add(session))
				time.Sleep(session / 3)
				stored = n
			}
			if lost := !goesOn || !x.goesOn(); lost != c.lost {
				t.Errorf("%s: lost: %t", name, lost)
			}
		})
	}
}

// What the client does not read by TCP is not known, so its beats count.
func TestAClientThatHasBeatenHasToGoOn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.agent.Session = time.Second
	r := s.stands(asksForOrders)
	id := r.until(Leading).ID
	got := s.ask(t.Context(), "POST", "/v1/terms/"+id+"/beat", "")
	text, _ := io.ReadAll(got.Body)
	got.Body.Close()
	if got.StatusCode != 200 || !strings.Contains(string(text), id) {
		t.Errorf("%s: %s", got.Status, text)
	}
	for {
		if e := r.next(); e.Event == Lost {
			if e.Cause != Silent {
				t.Errorf("%+v", e)
			}
			break
		}
	}
}

func TestWithoutABeatNothingIsKnownOfAClientByTCP(t *testing.T) {
	x := client{unread: unreadOf(context.Background())}
	x.sent(time.Now().Add(-time.Hour))
	if !x.goesOn() || x.left() < time.Hour {
		t.Error("has to go on")
	}
	x.beat()
	if x.goesOn() {
		t.Error("its beat was too long ago")
	}
}
