package redismarks

import (
	"errors"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Refused turns a guard's error reply back into the refusal. It returns any other error unchanged.
func Refused(err error, c fence.Claim) error {
	if r := RefusalIn(err, c); r != nil {
		return r
	}
	return err
}

// RefusalIn returns the refusal in a guard's error reply, or nil.
func RefusalIn(err error, c fence.Claim) *fence.Refusal {
	answer, ok := errors.AsType[driver.Error](err)
	if !ok {
		return nil
	}
	code, text, _ := strings.Cut(answer.Error(), " ")
	reason := refusal.OfWord(code)
	if reason == "" {
		return nil
	}
	return &fence.Refusal{Reason: reason, Claim: c, Message: text, Cause: err}
}
