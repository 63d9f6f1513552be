package redis

import (
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

// codes are the first words of the guard's errors.
var codes = map[fence.Reason]string{
	fence.Stale: "STALETOKEN", fence.NoToken: "NOTOKEN", fence.Malformed: "BADTOKEN", fence.OtherIssuer: "ISSUER",
	fence.NotInstalled: "NOTINSTALLED", fence.Unrevoked: "REVOKE", fence.NotLeader: "NOTLEADER", fence.NotAllowed: "NOTALLOWED",
}

// Code is the first word of the error that tells a client of a refusal.
func Code(r fence.Reason) string { return codes[r] }

// Line is a refusal as a client reads it: code, and message, detail and hint in one line, whatever is in them.
func Line(r *fence.Refusal) string {
	return Code(r.Reason) + " " + strings.NewReplacer("\r", " ", "\n", " ").Replace(r.Error())
}

// Refused turns an error that a guard answered back into the refusal it was; any other error stays what it is.
func Refused(err error, c fence.Claim) error {
	if r := RefusalIn(err, c); r != nil {
		return r
	}
	return err
}

// RefusalIn is the refusal that a guard answered, or nil.
func RefusalIn(err error, c fence.Claim) *fence.Refusal {
	for reason, code := range codes {
		if driver.HasErrorPrefix(err, code) {
			return &fence.Refusal{Reason: reason, Claim: c, Message: strings.TrimPrefix(err.Error(), code+" "), Cause: err}
		}
	}
	return nil
}
