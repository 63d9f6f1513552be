package redismarks

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
	"github.com/ringfence/ringfence/internal/network/backoff"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts. Each file documents its arguments and its answer.
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

	authorizeScript = script("authorize")
	recordedScript  = script("recorded")
	leftScript      = script("left")
	leaveScript     = script("leave")
	uninstallScript = script("uninstall")
)

// program is a script in two forms. Redis 7 runs the flagged one even when it is out of memory: a
// new leader must be admitted then too, and the older one ended, because it can still delete. Redis
// 6.2 does not know the flag and gets the plain one. It refuses a command that may take memory only
//
//	until
//
// the script has written, and DEL is a write that takes none.
type program struct{ flagged, plain *driver.Script }

// script reads a script and puts the code that all scripts share before it.
func script(name string) program {
	common, text := luaText("common"), luaText(name)
	return program{
		driver.NewScript("#!lua flags=allow-oom\n" + common + text),
		driver.NewScript(common + "redis.call('DEL', '" + probeKey + "')\n" + text),
	}
}

// run runs the form that the server knows.
func (p program) run(
	ctx context.Context, db *driver.Client, keys []string, args ...any,
) *driver.Cmd {
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

	originalKey = "ringfence:.original"
	allowedKey  = "ringfence:.allowed"
	leftKey     = "ringfence:.left"
)

func key(r fence.Resource) string { return markerKey + ":" + string(r) }

// reply is a script's answer: a verdict, and for most scripts the mark of one claim's resource.
type reply struct {
	verdict   string
	list      []any // the raw answer, verdict included
	claim     int   // the index of the claim that it is about
	mark      marks.Mark
	installed bool
	lost      bool   // the registry is lost
	kept      bool   // there are records of sessions that may still live at other servers
	basis     string // everything that a raise depends on; the raise compares it
	run       string // of the server that has answered
	left      string // older sessions that may still live at another server
}

// run runs a script. While another script blocks the server it waits, until ctx ends.
func (s *Store) run(
	ctx context.Context, script program, keys []string, args ...any,
) (reply, error) {
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
	switch r.verdict {
	case "others", "marks", "missing", "probed", "authorization", "recorded", "remains", "left":
		// their answers have no mark
		return r, nil
	}
	if len(list) < answerFields {
		return r, nil
	}
	r.claim, r.mark, err = parseMark(list)
	r.installed, r.lost = text(list[7]) == "1", text(list[11]) == "1"
	r.basis, r.run = text(list[12]), text(list[13])
	r.kept = len(list) > answerFields && text(list[answerFields]) == "1"
	return r, err
}

// answerFields is the number of fields that the function answer in common.lua returns.
const answerFields = 16

// parseMark reads the fields that the function answer in common.lua returns.
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
	m.Candidate, m.RolledBack = text(list[14]), text(list[15]) == "1"
	m.Sessions, err = strconv.Atoi(text(list[8]))
	return claim - 1, m, err
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// retry repeats a call while the server is busy with a script or loads its data, and a limited
// number of times when the connection broke: another guard may be ending every connection. All
// calls made through it may be repeated. If ctx ends first, it returns ctx's error together with
// the server's.
func retry(ctx context.Context, call func() error) error {
	wait := firstPause
	for breaks := 0; ; {
		err := call()
		if err == nil || !isBusy(err) && !isBroken(err) {
			return err
		}
		if isBroken(err) {
			if breaks++; breaks > maxBreaks {
				return err
			}
		}
		if waited := pause(ctx, wait); waited != nil {
			return fmt.Errorf("%w: %w", waited, err)
		}
		wait = nextPause(wait)
	}
}

// maxBreaks limits the broken connections that retry tolerates in one call.
const maxBreaks = 20

// isBroken reports whether a connection was ended during a call, or before it could serve. An error
// of dialing does not count: then the server is down.
func isBroken(err error) bool {
	if notDialed(err) {
		return false
	}
	return errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// notDialed reports whether no connection could be opened.
func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// pause waits about d, or until ctx ends. The wait is random, so that guards that collide do not
// collide again.
func pause(ctx context.Context, d time.Duration) error {
	backoff.Pause(ctx, d/2+rand.N(d))
	return ctx.Err()
}

// isBusy reports whether the server is busy, loading or full, and will answer later.
func isBusy(err error) bool {
	return driver.HasErrorPrefix(err, "BUSY") || driver.IsLoadingError(err) ||
		driver.IsMaxClientsError(err)
}

// firstPause and nextPause are the exponential backoff between tries.
const firstPause = 2 * time.Millisecond

func nextPause(d time.Duration) time.Duration { return min(2*d, 100*time.Millisecond) }
