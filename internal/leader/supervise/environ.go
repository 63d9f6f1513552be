package supervise

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/program/settings"
	"github.com/ringfence/ringfence/store/postgres"
)

// Claimed returns the environment with the claim added, as variables and in PGOPTIONS. It keeps the token
// of an outer leader for another resource in PGOPTIONS, since a session may be fenced for several.
func Claimed(environ []string, c fence.Claim) []string {
	return With(environ, [][2]string{
		{"RINGFENCE_RESOURCE", string(c.Resource)},
		{"RINGFENCE_TOKEN", c.Token.String()},
		{"RINGFENCE_HOLDER", c.Holder},
		{"PGOPTIONS", postgres.AppendOptions(settings.Lookup(environ, "PGOPTIONS"), c)},
	})
}

// With returns the environment with these variables, which replace those of the same name.
func With(environ []string, own [][2]string) []string {
	environ = slices.Clone(environ)
	for _, v := range own {
		named := func(entry string) bool { return strings.HasPrefix(entry, v[0]+"=") }
		environ = slices.DeleteFunc(environ, named)
		environ = append(environ, v[0]+"="+v[1])
	}
	return environ
}
