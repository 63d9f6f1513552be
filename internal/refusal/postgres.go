package refusal

import (
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pgoptions"
)

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

// What only a Postgres guard tells a client. The startup packet is all that it has seen of it.

// BadOption refuses a claim in the startup packet that cannot be read.
func BadOption(c fence.Claim, cause error) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrMalformed, Claim: c, Cause: cause,
		Message: cause.Error(),
		Detail:  "the session was refused before login; nothing was sent to the database",
		Hint: "give one token per resource, as it was handed out: options='-c " +
			"fence.<resource>=<token>'",
	}
}

// NoOption refuses a session whose startup packet claims nothing.
func NoOption() *fence.Refusal {
	return &fence.Refusal{
		Reason:  fence.ErrNoToken,
		Message: "no token: the guard takes only sessions of a leader",
		Detail:  "the startup packet names no fence.<resource>; nothing was sent to the database",
		Hint: "a leader connects with options='-c fence.<resource>=<token>' (leader run sets " +
			"PGOPTIONS); readers, backups and monitoring connect to the database's own address, a standby " +
			"or a pooler, with a role that may only read",
	}
}

// UnknownResource refuses a resource that this guard does not serve.
func UnknownResource(c fence.Claim, served []fence.Resource) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrMalformed, Claim: c,
		Message: fmt.Sprintf("unknown resource %q", c.Resource),
		Detail:  fmt.Sprintf("this guard serves %v (GUARD_RESOURCES)", served),
		Hint:    "use one of these, or let the guard's operator add yours",
	}
}

// Superuser refuses a role whose sessions the guard could not end.
func Superuser(role string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotAuthorized,
		Message: fmt.Sprintf("role %q is a superuser, and superusers cannot connect through the guard",
			role),
		Detail: "the guard could not end the session later: only a superuser may, and the guard's role " +
			"is none; nothing was admitted",
		Hint: "log in as an ordinary role",
	}
}

// Fields are the fields of a Postgres error that carry a refusal's claim and mark, so that programs
// need not parse its text. Postgres has no fields for that, so these are borrowed from errors about
// tables (manual, 55.8 "Error and Notice Message Fields"): psycopg has them as diag.table_name,
// JDBC as ServerErrorMessage.getTable. The functions of the schema raise their errors with the
// same.
type Fields struct {
	Schema     string // FieldSchema, which tells that the others are ours
	Table      string // the resource
	Column     string // the token
	Constraint string // the mark
}

// FieldSchema is the schema that a refusal names.
const FieldSchema = "ringfence"

// FieldsOf returns the fields of a refusal. Those of what is not known are empty.
func FieldsOf(r *fence.Refusal) Fields {
	return Fields{FieldSchema, string(r.Claim.Resource), decimal(r.Claim.Token), decimal(r.Mark)}
}

func decimal(t fence.Token) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

// Fill sets a refusal's claim and mark to what the fields say. An error without our fields, such as
// one of an older guard, leaves them alone.
func (f Fields) Fill(r *fence.Refusal) {
	if f.Schema != FieldSchema {
		return
	}
	if resource, err := fence.ParseResource(f.Table); err == nil && resource != r.Claim.Resource {
		r.Claim = fence.Claim{Resource: resource}
	}
	if token, err := fence.ParseToken(f.Column); err == nil {
		r.Claim.Token = token
	}
	if mark, err := fence.ParseToken(f.Constraint); err == nil {
		r.Mark = mark
	}
}
