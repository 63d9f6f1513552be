package main

import "github.com/ringfence/ringfence/internal/settings"

// withFile returns the environment with the settings of GUARD_SETTINGS_FILE.
func withFile(env []string) ([]string, error) {
	file := settings.Lookup(env, "GUARD_SETTINGS_FILE")
	if file == "" {
		return env, nil
	}
	return settings.WithFile(env, file, "GUARD_")
}
