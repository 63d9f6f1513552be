package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

// The rule for the name of a resource is that of fence.ParseResource. These have to say it again,
// in their own language.
func TestTheRuleForNamesIsTheSameEverywhere(t *testing.T) {
	names := []string{
		"a", "z9_", "orders", strings.Repeat("r", 48), strings.Repeat("r", 49), "", "_a", "9a", "A", "aB",
		"a-b", "a b", "a.b", "é", "aé", "a\n", "a*",
	}
	rules := 0
	for file, form := range map[string]string{
		"cmd/leader/internal/agent/openapi.yaml":      `pattern: '(\^\[a-z\]\[a-z0-9_\][^']*)'`,
		"internal/postgres/pgschema/sql/schema.sql":   `ringfence_private\.resource as text .* '(\^[^']*)'`,
		"internal/postgres/pgschema/sql/contract.sql": `v_resource !~ '(\^[^']*)'`,
		"internal/marks/redismarks/lua/functions.lua": `#text <= 48 and string.match\(text, '(\^\[a-z\]\[a-z0-9_\]\*\$)'\)`,
	} {
		found := regexp.MustCompile(form).FindAllStringSubmatch(read(t, filepath.Join(root, file)), -1)
		if len(found) == 0 {
			t.Errorf("%s has no rule", file)
		}
		for _, m := range found {
			rules++
			rule := regexp.MustCompile(strings.TrimSuffix(m[1], "$") + `\z`)
			for _, name := range names {
				_, err := fence.ParseResource(name)
				takes := rule.MatchString(name) && (!strings.HasSuffix(file, ".lua") || len(name) <= 48)
				if takes != (err == nil) {
					t.Errorf("%s: %q: %t, in Go %v", file, name, takes, err)
				}
			}
		}
	}
	if rules < 5 {
		t.Errorf("%d rules were compared", rules)
	}
}
