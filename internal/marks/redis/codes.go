package redis

import (
	"errors"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Refused turns an error that a guard answered back into the refusal it was; any other error stays what it is.
func Refused(err error, c fence.Claim) error {
	if r := RefusalIn(err, c); r != nil {
		return r
	}
	return err
}

// RefusalIn is the refusal that a guard answered, or nil.
func RefusalIn(err error, c fence.Claim) *fence.Refusal {
	var answered driver.Error
	if !errors.As(err, &answered) {
		return nil
	}
	word, text, _ := strings.Cut(answered.Error(), " ")
	reason := refusal.OfWord(word)
	if reason == 0 {
		return nil
	}
	return &fence.Refusal{Reason: reason, Claim: c, Message: text, Cause: err}
}
