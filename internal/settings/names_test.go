package settings_test

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/internal/settings"
)

func TestANameMayHaveAnyCharacterInQuotes(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		"a":                           {"a"},
		"a,b c,D":                     {"a", "b c", "D"},
		`"a,b","c""d"," e ",f`:        {"a,b", `c"d`, " e ", "f"},
		"\"a\nb\",b\\c,d%20e,f/g@h:i": {"a\nb", `b\c`, "d%20e", "f/g@h:i"},
		`a"b,büro`:                    {`a"b`, "büro"},
	} {
		if got, err := settings.ParseNames(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{",", "a,", "a, b", " a", `"a`, `"a"b`, `""`, `"a",`, `"a" ,b`} {
		if got, err := settings.ParseNames(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
