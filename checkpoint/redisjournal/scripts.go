package redisjournal

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

var (
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/publish.lua
	publishLua string
	//go:embed lua/forget.lua
	forgetLua string
)

// Each Lua file says what its script is given and answers.
var (
	takeScript    = redismarks.NewScript(takeLua)
	publishScript = redismarks.NewScript(publishLua)
	forgetScript  = redismarks.NewScript(forgetLua)
	raisedScript  = redismarks.NewScript("return {'raised'}") // only checks the claim
)

// run runs a script under the claim and returns the error of Script.Run unchanged.
func (j *Journal) run(
	ctx context.Context, s *redismarks.Script, c fence.Claim, task checkpoint.Name, args ...any,
) (list []any, err error) {
	answer, err := s.Run(ctx, j.db, c, []string{key(task), tasksKey}, args...)
	if err != nil {
		return nil, err
	}
	if list, _ = answer.([]any); len(list) == 0 {
		return nil, fmt.Errorf("redis answered %v to a script of the journal's", answer)
	}
	return list, nil
}

// scriptError turns a script's answer into an error, or nil.
func scriptError(list []any, c fence.Claim, task checkpoint.Name) error {
	switch text(list[0]) {
	case "corrupt":
		return fmt.Errorf("%w: the key %s has no version; nothing was changed: "+
			"somebody else writes to it", checkpoint.ErrCorrupt, key(task))
	case "resource":
		return otherResource(task, fence.Resource(text(list[1])), c)
	case "conflict":
		return fmt.Errorf("%w: version %s of %s is stored; nothing was changed",
			checkpoint.ErrConflict, text(list[1]), task)
	}
	return nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func otherResource(task checkpoint.Name, owner fence.Resource, c fence.Claim) error {
	return fmt.Errorf("%w: %s is a task of %q, the claim is to %q; nothing was changed",
		checkpoint.ErrOtherResource, task, owner, c.Resource)
}
