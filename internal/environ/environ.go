// Package environ makes the environment of a command that is run by a leader.
package environ

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store/postgres"
)

// Claimed is environ with the claim added in the forms that the command may want it in. An outer leader's token
// for another resource stays in PGOPTIONS: a session may be fenced for several.
func Claimed(environ []string, c fence.Claim) []string {
	return With(environ, [][2]string{
		{"RINGFENCE_RESOURCE", string(c.Resource)},
		{"RINGFENCE_TOKEN", c.Token.String()},
		{"RINGFENCE_HOLDER", c.Holder},
		{"PGOPTIONS", postgres.Option(Lookup(environ, "PGOPTIONS"), c)},
	})
}

// With is environ with these variables, in the place of those that have their names.
func With(environ []string, own [][2]string) []string {
	environ = slices.Clone(environ)
	for _, v := range own {
		environ = slices.DeleteFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, v[0]+"=") })
		environ = append(environ, v[0]+"="+v[1])
	}
	return environ
}

// Lookup is the value of a variable, the last one where it is there twice.
func Lookup(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if key, v, ok := strings.Cut(entry, "="); ok && key == name {
			value = v
		}
	}
	return value
}
