package proxies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

var redisNotes = []string{
	"get and set: commands per second by c clients, each of which sends P commands at once and then " +
		"waits for all replies. latency: one SET of one client, the ways in turns at each round trip.",
	"The CPU time is that of the proxy, for each command.",
	"The load comes from this program, since redis-benchmark cannot send FENCE or CLIENT SETNAME " +
		"first.",
	"twemproxy sends the commands of all clients over one connection, which no proxy can that keeps " +
		"the clients' sessions apart.",
}

// The commands, with their replies.
var (
	setCommand = "SET key:000000000000 xxx"
	getCommand = "GET key:000000000000"
	redisRows  = []struct{ name, command, reply string }{
		{"get", getCommand, "$3\r\nxxx\r\n"}, {"set", setCommand, "+OK\r\n"},
	}
)

// pipelines are the numbers of clients and of commands in flight for each.
var pipelines = []struct{ clients, depth int }{{1, 1}, {50, 1}, {50, 16}, {1, 64}, {50, 64}}

// measureRedis runs the rows of Redis.
func measureRedis(
	ctx context.Context, s *settings, progress io.Writer,
) (r *report.Report, err error) {
	stage, err := ways.StartRedis(ctx, ways.Options{
		Guard: s.Guard, Peers: true, TLS: s.tls, Progress: progress,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	r = report.New(s.suite("redis"), s.Options)
	r.Programs, r.Notes = stage.Programs, redisNotes
	bar := report.Bar{Way: ways.Guard, Against: ways.HAProxy, Limit: 1}
	var trials []trial
	for _, c := range redisRows {
		for _, p := range pipelines {
			row := report.Row{
				Name: fmt.Sprintf("%s c=%d P=%d", c.name, p.clients, p.depth), Unit: "ops/s", Bar: &bar,
			}
			l := load{
				clients: p.clients, depth: p.depth, command: resp(c.command), reply: []byte(c.reply),
				time: s.Duration(),
			}
			run := l.run
			if s.tls {
				run = l.runTLS
			}
			if s.Wants(row.Name) {
				trials = append(trials, each(r.Row(row), run))
			}
		}
	}
	trials = append(trials, latencyTrials(r, s, "latency", bar, dialRedis)...)
	if err := fillRedis(ctx, stage); err != nil {
		return nil, err
	}
	return r, runTrials(ctx, trials, stage.Ways, s.Rounds, progress)
}

// resp encodes a command as clients do.
func resp(command string) []byte {
	words := strings.Fields(command)
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

// fillRedis sets the key, so that GET finds it.
func fillRedis(ctx context.Context, s *ways.Redis) error {
	p, err := dialRedis(ctx, s.Ways[0])
	if err != nil {
		return err
	}
	return errors.Join(p.trip(), p.close())
}

// dialRedis returns a client that sends SET.
func dialRedis(ctx context.Context, w *ways.Way) (*pingPong, error) {
	conn, err := w.DialRedis(ctx, ways.Resource, 1)
	if err != nil {
		return nil, err
	}
	reply := []byte("+OK\r\n")
	return newPingPong(conn, resp(setCommand), func(r io.Reader) (int, error) {
		got := make([]byte, len(reply))
		_, err := io.ReadFull(r, got)
		if err == nil && string(got) != string(reply) {
			err = fmt.Errorf("the reply is %q", got)
		}
		return len(reply), err
	})
}
