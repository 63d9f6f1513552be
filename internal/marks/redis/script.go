package redis

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts. What each is given and answers is said in its file.
var (
	registerScript = script("register")
	lookScript     = script("look")
	raiseScript    = script("raise")
	othersScript   = script("others")
	releaseScript  = script("release")
	marksScript    = script("marks")
	adoptScript    = script("adopt")
	endingScript   = script("ending")
	installScript  = script("install")
	probeScript    = script("probe")
)

// program is a script in two forms. Redis 7 runs the first also when it has no memory left: a new leader must be let in
// then too, and the older one be ended, which may go on deleting. Redis 6.2 does not know the flag.
type program struct{ flagged, plain *driver.Script }

// script puts what all of them share before one of them.
func script(name string) program {
	text := luaText("common") + luaText(name)
	return program{driver.NewScript("#!lua flags=allow-oom\n" + text), driver.NewScript(text)}
}

// run runs the form that the server knows.
func (p program) run(ctx context.Context, db *driver.Client, keys []string, args ...any) *driver.Cmd {
	cmd := p.flagged.Run(ctx, db, keys, args...)
	if err := cmd.Err(); err != nil && strings.Contains(err.Error(), "unexpected symbol near '#'") {
		return p.plain.Run(ctx, db, keys, args...)
	}
	return cmd
}

func luaText(name string) string {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the files are part of the program
	}
	return string(b)
}

// The keys.
const (
	markerKey = "ringfence"
	auditKey  = "ringfence:.audit"
	probeKey  = "ringfence:.probe"
)

func key(r fence.Resource) string { return markerKey + ":" + string(r) }

// reply is what a script answers: a verdict, and mostly the mark that a claim met.
type reply struct {
	verdict   string
	list      []any // the answer as it came, verdict included
	claim     int   // which claim it is about, from 0
	mark      marks.Mark
	installed bool
	lost      bool   // the registry is
	basis     string // of a raise
	run       string // of the server that has answered
}

// run runs a script. While another script holds the server up it waits, for as long as ctx lets it.
func (s *Store) run(ctx context.Context, script program, keys []string, args ...any) (reply, error) {
	var list []any
	err := retry(ctx, func() (err error) {
		list, err = script.run(ctx, s.db, append([]string{markerKey}, keys...), args...).Slice()
		return err
	})
	if err != nil {
		return reply{}, Explain(err)
	}
	return parseReply(list)
}

func parseReply(list []any) (r reply, err error) {
	if len(list) == 0 {
		return r, errors.New("redis answered an empty list: guard and scripts do not fit")
	}
	r.list = list
	r.verdict, _ = list[0].(string)
	if len(list) < answerFields || r.verdict == "others" || r.verdict == "marks" || r.verdict == "probed" {
		return r, nil
	}
	r.claim, r.mark, err = parseMark(list)
	r.installed, r.lost, r.basis, r.run = text(list[7]) == "1", text(list[11]) == "1", text(list[12]), text(list[13])
	return r, err
}

// answerFields is how many fields answer in common.lua writes.
const answerFields = 14

// parseMark reads what answer in common.lua writes.
func parseMark(list []any) (claim int, m marks.Mark, err error) {
	if len(list) < answerFields {
		return 0, m, fmt.Errorf("redis answered %d fields for a mark", len(list))
	}
	claim, err = strconv.Atoi(text(list[1]))
	if err != nil {
		return 0, m, err
	}
	if err := m.Token.UnmarshalText([]byte(text(list[2]))); err != nil {
		return 0, m, fmt.Errorf("the mark in Redis is not a token: %w", err)
	}
	m.Issuer, m.Holder = fence.Issuer(text(list[3])), text(list[4])
	micros, err := strconv.ParseInt(text(list[5]), 10, 64)
	if err != nil {
		return 0, m, fmt.Errorf("the mark in Redis has no time: %w", err)
	}
	if micros > 0 {
		m.Raised = time.UnixMicro(micros)
	}
	m.Confirmed = text(list[6]) == "1"
	m.Continued, m.Adoption = text(list[9]) == "1", text(list[10])
	m.Sessions, err = strconv.Atoi(text(list[8]))
	return claim - 1, m, err
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// retry calls again while the server says that it is busy with a script or still loads its data, and a number of times
// when the connection broke: another guard may be ending every connection, and all that is called here may be repeated.
// It returns the server's words with ctx's error when ctx ends first.
func retry(ctx context.Context, call func() error) error {
	wait := firstPause
	for breaks := 0; ; {
		err := call()
		if err == nil || !occupied(err) && !broken(err) {
			return err
		}
		if broken(err) {
			if breaks++; breaks > breaksMost {
				return err
			}
		}
		if waited := pause(ctx, wait); waited != nil {
			return fmt.Errorf("%w: %w", waited, err)
		}
		wait = nextPause(wait)
	}
}

// breaksMost is how many broken connections in a row are no reason to give up.
const breaksMost = 20

// broken says that a connection was ended under a call, or before it could serve. A server that cannot be dialed is
// not broken but down.
func broken(err error) bool {
	if notDialed(err) {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// notDialed says that no connection could be opened.
func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// pause waits about d, at most until ctx ends. Guards that get in each other's way are not to do so again.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// occupied says that the server will answer later.
func occupied(err error) bool {
	return driver.HasErrorPrefix(err, "BUSY") || driver.IsLoadingError(err)
}

// firstPause and nextPause space the tries.
const firstPause = 2 * time.Millisecond

func nextPause(d time.Duration) time.Duration { return min(2*d, 100*time.Millisecond) }
