package main

import (
	"strings"

	"github.com/ringfence/ringfence/internal/settings"
)

// withFile returns the environment with the settings of GUARD_SETTINGS_FILE.
func withFile(env []string) ([]string, error) {
	file := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "GUARD_SETTINGS_FILE="); ok {
			file = value
		}
	}
	if file == "" {
		return env, nil
	}
	return settings.WithFile(env, file, "GUARD_")
}
