package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// deposed is how many terms are deposed, to see when their holders are told.
const deposed = 100

// event is what the benchmark reads of an event of `leader agent` (docs/agent.md).
type event struct {
	Event    string         `json:"event"`
	Resource fence.Resource `json:"resource"`
	Token    string         `json:"token"`
	Error    string         `json:"error"`
}

// startAgent starts `leader agent` on a Unix socket, and returns when it answers.
func startAgent(ctx context.Context, leader, url, socket string) (*child, error) {
	cmd := exec.Command(leader, "agent", "--listen", "unix:"+socket)
	cmd.Env = append(os.Environ(), "LEADER_COORDINATOR="+url, "LEADER_HOLDER=bench", "LEADER_LOG=warn",
		"LEADER_SESSION_TIMEOUT="+heldTimeout.String())
	p, err := program.Start(cmd, func(string) {})
	if err != nil {
		return nil, err
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return &child{Child: p}, conn.Close()
		}
		if failed := pause(ctx, 20*time.Millisecond); failed != nil {
			p.End()
			return nil, errors.Join(failed, err)
		}
		select {
		case <-p.Ended:
			return nil, fmt.Errorf("%s has ended", cmd)
		default:
		}
	}
}

// holders are programs that hold terms by an agent.
type holders struct {
	client  http.Client
	reading context.Context // whose end closes the streams
	events  sync.WaitGroup
	lost    chan lost
}

// lost is a term of which a holder has read that it is over.
type lost struct {
	event
	at time.Time
}

func newHolders(reading context.Context, socket string) *holders {
	h := &holders{reading: reading, lost: make(chan lost, 64)}
	h.client.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10,
	}
	return h
}

// starting is how many programs stand for election at once, until they lead.
const starting = 64

// stand stands for elections, and returns when all are won.
func (h *holders) stand(ctx context.Context, terms int) ([]event, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(starting)
	all := make([]event, terms)
	for i := range terms {
		g.Go(func() (err error) {
			all[i], err = h.one(ctx, fmt.Sprintf("r%d", i))
			return err
		})
	}
	return all, g.Wait()
}

// one opens a stream, and returns when it leads. The stream is read until it ends.
func (h *holders) one(ctx context.Context, resource string) (leading event, err error) {
	r, err := http.NewRequestWithContext(h.reading, "POST", "http://agent/v1/terms",
		strings.NewReader(`{"resource":"`+resource+`"}`))
	if err != nil {
		return leading, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := h.client.Do(r)
	if err != nil {
		return leading, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return leading, errors.New(answer.Status)
	}
	first := make(chan event, 1)
	h.events.Go(func() {
		defer answer.Body.Close()
		h.read(answer.Body, first)
	})
	select {
	case leading = <-first:
	case <-ctx.Done():
		return leading, context.Cause(ctx)
	}
	if leading.Event != "leading" {
		return leading, fmt.Errorf("%s: %s", resource, leading.Error)
	}
	return leading, nil
}

// read reads a stream. The first event that says that it leads, or does not, goes to first.
func (h *holders) read(body io.Reader, first chan event) {
	lines := json.NewDecoder(body)
	for {
		var e event
		if lines.Decode(&e) != nil {
			return
		}
		switch e.Event {
		case "leading":
			first <- e
		case "lost":
			select {
			case first <- e: // it has never led
			default:
			}
			select {
			case h.lost <- lost{e, time.Now()}:
			case <-h.reading.Done():
			}
		}
	}
}

// told deposes some terms, one after the other, and returns how long it takes until a holder has
// read that.
func (h *holders) told(
	ctx context.Context, c elector.Coordinator, all []event,
) (took []time.Duration, err error) {
	for _, e := range all[:min(deposed, len(all))] {
		token, err := fence.ParseToken(e.Token)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := c.Depose(ctx, e.Resource, token); err != nil {
			return nil, err
		}
		select {
		case l := <-h.lost:
			if l.Resource != e.Resource {
				return nil,
					fmt.Errorf("the term of %s was lost, which nobody has deposed: %s", l.Resource, l.Error)
			}
			took = append(took, l.at.Sub(start))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	slices.Sort(took)
	return took, nil
}

// byAgent measures an agent whose clients lead.
func (p plan) byAgent(ctx context.Context, e entry, s server, terms int) (row heldRow, err error) {
	dir, err := os.MkdirTemp("", "bench-agent")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "agent.sock")
	reading, stop := context.WithCancel(ctx)
	h := newHolders(reading, socket)
	var all []event
	row = heldRow{Coordinator: e.name, Terms: terms, Agent: true}
	err = p.holding(ctx, e, s, &row, func(url string) (*child, error) {
		return startAgent(ctx, p.leader, url, socket)
	}, func(*child) (err error) {
		all, err = h.stand(ctx, terms)
		return err
	}, func() error {
		c, err := open(ctx, s.url(s.address()), heldTimeout)
		if err != nil {
			return err
		}
		took, err := h.told(ctx, c, all)
		if err == nil {
			row.ToldP50, row.ToldP99 = ms(rounds.Percentile(took, 0.5)), ms(rounds.Percentile(took, 0.99))
		}
		return errors.Join(err, c.Close())
	})
	stop()
	h.events.Wait()
	h.client.CloseIdleConnections()
	return row, err
}
