package carrier

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/settings"
)

func TestASettingIsReadAndCheckedAgainstTheStores(t *testing.T) {
	stores := settings.URLs{"postgres://app@guard:6432/shop", "redis://guard:7379/3"}
	for text, want := range map[string]string{
		"postgres":                         "",
		"redis, postgres":                  "",
		"postgres=127.0.0.1:5432":          "",
		"redis=unix:/run/app/redis.sock":   "",
		"postgres=unix:/run/.s.PGSQL.5432": "",
		"postgres=[::1]:5432,redis=":       "neither an address",
		"mysql":                            "there is postgres and redis",
		"postgres,postgres":                "is listed twice",
		"postgres=127.0.0.1:0":             "has no port",
		"postgres=0.0.0.0:5432":            "no loopback address",
		"postgres=unix:/run/app.sock":      "clients look for a socket named .s.PGSQL.5432",
		"redis=unix:app.sock":              "no absolute path",
	} {
		var s Setting
		err := s.UnmarshalText([]byte(text))
		if err == nil {
			var routes []Route
			if routes, err = Routes(s, stores); err == nil && len(routes) != len(s) {
				t.Errorf("%s: %v", text, routes)
			}
		}
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	two := append(stores, "postgresql://app@other/shop")
	if _, err := Routes(Setting{{"postgres", ""}}, two); err == nil ||
		!strings.Contains(err.Error(), "must have one postgres://") {
		t.Errorf("two stores: %v", err)
	}
}
