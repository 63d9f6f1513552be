package redis

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

// Script is what store/redis.Script runs.
type Script struct{ text string }

// NewScript is store/redis.NewScript.
func NewScript(lua string) *Script {
	return &Script{luaText("common") + luaText("gate") + "return {'ran', (function()\n" + lua + "\nend)()}\n"}
}

// of is the script for a client of this database number, and its hash. The marks are in database 0 whatever the number.
func (s *Script) of(database int) (text, sha string) {
	text = fmt.Sprintf("local DATABASE = %d\n%s", database, s.text)
	sum := sha1.Sum([]byte(text)) // Redis names scripts so
	return text, hex.EncodeToString(sum[:])
}

// Run is store/redis.Script.Run. Errors of rights and settings are *fence.SetupError.
func (s *Script) Run(ctx context.Context, db *driver.Client, c fence.Claim, keys []string, args ...any) (any, error) {
	words, err := words(args)
	if err != nil {
		return nil, fmt.Errorf("nothing was run: %w", err)
	}
	list, err := s.call(ctx, db, c, keys, words)
	switch {
	case err != nil:
		return nil, ended(ctx, err)
	case len(list) == 0:
		return nil, errors.New("redis answered an empty list: is this another program's script?")
	case text(list[0]) != "ran":
		return nil, shut(list, c)
	case len(list) == 1:
		return nil, nil
	}
	if failed, ok := list[1].(error); ok {
		return nil, failed
	}
	return list[1], nil
}

// call sends the script, at first by its hash.
func (s *Script) call(ctx context.Context, db *driver.Client, c fence.Claim, keys []string, args []any) ([]any, error) {
	tail := []any{len(keys)}
	for _, k := range keys {
		tail = append(tail, k)
	}
	tail = append(append(tail, string(c.Resource), c.Token.String(), string(c.Issuer)), args...)
	script, sha := s.of(db.Options().DB)
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
		case !early(err) || pause(ctx, wait) != nil:
			return nil, outcome(err, c)
		}
	}
}

// ended adds why ctx ended, if it did. The connection may have been told the deadline an instant before ctx is over.
func ended(ctx context.Context, err error) error {
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= 0 {
		<-ctx.Done()
	}
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, context.Cause(ctx))
}

// shut is the refusal that a script's gate answered.
func shut(list []any, c fence.Claim) error {
	verdict := text(list[0])
	_, m, err := parseMark(list)
	if err != nil {
		return fmt.Errorf("nothing was run: %w", err)
	}
	m.Resource, m.Sessions = c.Resource, 0
	switch verdict {
	case "raise":
		err = unraised(c, m)
	case "revoke":
		err = refusal.Unraised(c, m.Token, "sessions under another token are recorded, and may still live")
	default:
		err = refuse(verdict, c, m)
	}
	var r *fence.Refusal
	if errors.As(err, &r) {
		r.Message, r.Claim = "nothing was run: "+r.Message, c
	}
	return err
}

// unraised refuses a claim that is not the mark, or not for certain.
func unraised(c fence.Claim, m marks.Mark) error {
	switch {
	case m.Token == c.Token:
		return refusal.Unraised(c, m.Token, "the mark is this token's, but Redis was restarted or has lost data since it was raised: it may have been higher")
	case m.Token == 0:
		return refusal.Unraised(c, m.Token, "no term has raised it yet, or Redis has lost it")
	}
	return refusal.Unraised(c, m.Token, fmt.Sprintf("the mark is %s", m.Token))
}
