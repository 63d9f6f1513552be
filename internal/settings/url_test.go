package settings_test

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/settings"
)

func TestAURLWhoseDriverWouldPrintAPartOfThePasswordIsRefused(t *testing.T) {
	for url, good := range map[string]bool{
		"postgres://u:alpha@bravo@h/x":        false,
		"postgresql://u:alpha@br/avo@h/x":     false,
		"postgres://u:al?pha@bravo@h/x":       false,
		"postgres://u:alpha@bravo@h1,h2/x":    false,
		"redis://u:alpha@br/avo@h/0":          false,
		"redis://u:alpha@bravo@h/0":           true,  // the last one counts there
		"mysql://u:alpha@bravo@h/x":           false, // nobody knows what its driver does
		"zk://u:alpha@bravo@h/x":              true,
		"etcd://u:alpha@bravo@h/x":            true,
		"postgres://u:alpha%40bravo@h/x":      true,
		"postgres://u:alpha@h/x?options=a@b":  true,
		"postgres://h/x?application_name=a@b": true,
		"postgres://u@h/x":                    true,
	} {
		var u settings.URL
		err := u.UnmarshalText([]byte(url))
		if good != (err == nil) {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "bravo") {
			t.Errorf("the error shows a part of the password: %v", err)
		}
	}
}
