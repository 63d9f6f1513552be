package refusal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pgoptions"
)

// Prefix begins the name of every setting and every client name that carries a claim.
const Prefix = "fence."

// NameForms are the forms of a client name that carries a claim, for messages.
const NameForms = Prefix + "<resource>.<token> or " + Prefix + "<resource>=<token>"

// MaxClaims is how many resources one session can claim. The work of an admission grows with the
// square of it, and a database may run nothing else meanwhile.
const MaxClaims = 32

// ErrTooManyClaims is the error of a session that claims more.
var ErrTooManyClaims = fmt.Errorf("a session claims %d resources at most", MaxClaims)

// ErrNoClaim is the error of a client name that begins with Prefix and names no token.
var ErrNoClaim = errors.New("the client name claims nothing")

// ParseClaim reads a resource and a token. The error matches fence.ErrBadResource or
// fence.ErrBadToken; after the latter the resource is good.
func ParseClaim(resource, token string) (r fence.Resource, t fence.Token, err error) {
	if r, err = fence.ParseResource(resource); err != nil {
		return "", 0, err
	}
	t, err = fence.ParseToken(token)
	return r, t, err
}

// StartupOption adds a claim to the value of the startup parameter "options" of Postgres, and so of
// PGOPTIONS.
func StartupOption(options string, c fence.Claim) string {
	own := fmt.Sprintf("-c %s%s=%s", Prefix, c.Resource, c.Token)
	if options == "" {
		return own
	}
	return options + " " + own
}

// Unclaimed removes from the value of "options" each claim whose resource fits. It knows the ways
// to write a setting that documentation has: -c name=value, -cname=value and --name=value.
func Unclaimed(options string, fits func(resource string) bool) string {
	claims := func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		resource, ok := OfSetting(name)
		return ok && fits(resource)
	}
	words := pgoptions.Split(options)
	var kept []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		setting, long := strings.CutPrefix(word, "--")
		setting, short := strings.CutPrefix(setting, "-c")
		switch {
		case word == "-c" && i+1 < len(words):
			i++
			if !claims(words[i]) {
				kept = append(kept, word, words[i])
			}
		case long == short || !claims(setting):
			kept = append(kept, word)
		}
	}
	if len(kept) == len(words) {
		return options
	}
	return pgoptions.Join(kept)
}

// OfSetting returns the resource that a setting of a Postgres session claims, and false when it
// claims none. The server ignores case in the name of a setting and takes '-' for '_'; so does
// this.
func OfSetting(name string) (resource string, ok bool) {
	return strings.CutPrefix(strings.Map(fold, name), Prefix)
}

// fold is how the server compares the names of settings: it folds ASCII letters and no others.
func fold(r rune) rune {
	switch {
	case 'A' <= r && r <= 'Z':
		return r - 'A' + 'a'
	case r == '-':
		return '_'
	}
	return r
}

// ClientName is the name of a Redis connection that carries a claim.
func ClientName(c fence.Claim) string {
	return Prefix + string(c.Resource) + "." + c.Token.String()
}

// OfClientName splits the name of a Redis connection that carries a claim into resource and token;
// false for any other name. There are two forms: fence.<resource>.<token>, and the older
// fence.<resource>=<token>, which programs cannot read that take CLIENT LIST apart at '='. A
// resource has neither a dot nor an equals sign in it, so the first of them ends it. The error is
// ErrNoClaim.
func OfClientName(name string) (resource, token string, ok bool, err error) {
	claim, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return "", "", false, nil
	}
	end := strings.IndexAny(claim, ".=")
	if end < 0 {
		return "", "", true, ErrNoClaim
	}
	return claim[:end], claim[end+1:], true, nil
}
