package redismarks

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Script implements store/redisstore.Script.
type Script struct{ text string }

// NewScript implements store/redisstore.NewScript.
func NewScript(lua string) *Script {
	body := "return {'ran', (function()\n" + lua + "\nend)()}\n"
	return &Script{luaText("common") + luaText("gate") + luaText("claimed") + body}
}

// forDatabase returns the script for a client of this database number, and its hash. The marks are
// in database 0 whatever the number.
func (s *Script) forDatabase(number int) (text, sha string) {
	text = fmt.Sprintf("local DATABASE = %d\n%s", number, s.text)
	sum := sha1.Sum([]byte(text)) // EVALSHA wants SHA-1
	return text, hex.EncodeToString(sum[:])
}

// Run implements store/redisstore.Script.Run. It returns a *fence.SetupError for missing rights and
// wrong settings.
func (s *Script) Run(
	ctx context.Context, db *driver.Client, c fence.Claim, keys []string, args ...any,
) (any, error) {
	encoded, err := encodeArgs(args)
	if err != nil {
		return nil, fmt.Errorf("nothing was run: %w", err)
	}
	list, err := s.call(ctx, db, c, keys, encoded)
	switch {
	case err != nil:
		return nil, withCause(ctx, err)
	case len(list) == 0:
		return nil, errors.New("redis answered an empty list: is this another program's script?")
	case text(list[0]) != "ran":
		return nil, gateRefusal(list, c)
	case len(list) == 1:
		return nil, nil
	}
	if failed, ok := list[1].(error); ok {
		return nil, failed
	}
	return list[1], nil
}

// call runs the script by its hash, and sends its text only when Redis does not have it. It retries
// while Redis refuses to run scripts.
func (s *Script) call(
	ctx context.Context, db *driver.Client, c fence.Claim, keys []string, args []any,
) ([]any, error) {
	tail := []any{len(keys)}
	for _, k := range keys {
		tail = append(tail, k)
	}
	// The candidate has no argument of its own, so that those of the script stay where they are.
	issuer := string(c.Issuer) + "\n" + c.Candidate
	tail = append(append(tail, string(c.Resource), c.Token.String(), issuer), args...)
	script, sha := s.forDatabase(db.Options().DB)
	head := []any{"EVALSHA", sha}
	for wait := firstPause; ; wait = nextPause(wait) {
		if ctx.Err() != nil {
			return nil, ErrNotRun
		}
		answer, err := process(ctx, db, append(head, tail...))
		switch {
		case err == nil:
			list, _ := answer.([]any)
			return list, nil
		case driver.HasErrorPrefix(err, "NOSCRIPT"):
			head = []any{"EVAL", script}
		case !refusedBeforeRun(err) || pause(ctx, wait) != nil:
			return nil, callError(err, c)
		}
	}
}

// withCause adds the reason why ctx ended, if it did. The connection has the deadline of ctx and
// may time out an instant before ctx ends.
func withCause(ctx context.Context, err error) error {
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= 0 {
		<-ctx.Done()
	}
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, context.Cause(ctx))
}

// gateRefusal returns the refusal for the verdict of the function gate.
func gateRefusal(list []any, c fence.Claim) error {
	verdict := text(list[0])
	m, err := parseMark(list)
	if err != nil {
		return fmt.Errorf("nothing was run: %w", err)
	}
	m.Resource, m.Sessions = c.Resource, 0
	switch verdict {
	case "raise":
		err = unraised(c, m)
	case "revoke":
		err = refusal.Unraised(c, m.Token,
			"sessions under another token are recorded, and may still live")
	default:
		err = refuse(verdict, c, m)
	}
	if r, ok := errors.AsType[*fence.Refusal](err); ok {
		r.Message, r.Claim = "nothing was run: "+r.Message, c
	}
	return err
}

// unraised refuses a claim that is above the mark, or equal to a mark that is unconfirmed.
func unraised(c fence.Claim, m marks.Mark) error {
	detail := fmt.Sprintf("the mark is %s", m.Token)
	switch {
	case m.Below(c):
		detail = "the mark is this token's of another candidate: the coordinator gives it out a second " +
			"time"
	case m.Token == c.Token:
		detail = "the mark is this token's, " +
			"but Redis was restarted or has lost data since it was raised: it may have been higher"
	case m.Token == 0:
		detail = "no term has raised it yet, or Redis has lost it"
	}
	return refusal.Unraised(c, m.Token, detail)
}
