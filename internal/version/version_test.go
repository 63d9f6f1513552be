package version

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionSaysWhatItWasBuiltFrom(t *testing.T) {
	revision := debug.BuildSetting{
		Key: "vcs.revision", Value: "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
	}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for want, b := range map[string]debug.BuildInfo{
		"v0.1.0 (commit 1a2b3c4d5e6f, go1.26.0)": {
			GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.1.0"},
			Settings: []debug.BuildSetting{revision},
		},
		"v0.1.1-0.20261125-1a2b3c4d5e6f (commit 1a2b3c4d5e6f+changes)": {
			Main:     debug.Module{Version: "v0.1.1-0.20261125-1a2b3c4d5e6f"},
			Settings: []debug.BuildSetting{revision, changed},
		},
		"unknown (go1.26.0)": {GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}},
		"unknown":            {},
	} {
		if got := of(&b).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// An image is built where Go finds no repository.
func TestAStampedVersionStandsInForTheRepository(t *testing.T) {
	t.Cleanup(func() { stamped = "" })
	stamped = "v0.1.0"
	if got := of(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}).Version; got != "v0.1.0" {
		t.Errorf("without a repository: %s", got)
	}
	if got := of(&debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}}).Version; got != "v0.2.0" {
		t.Errorf("with one: %s", got)
	}
}
