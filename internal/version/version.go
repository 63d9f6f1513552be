// Package version says which version of Ringfence a program was built from.
//
//	fmt.Println(version.Of()) // v0.1.0 (commit 1a2b3c4d5e6f, go1.26.0)
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// Info is what the Go linker has noted in the program.
type Info struct {
	// a tag such as v0.1.0, or what Go makes of a commit without one; "unknown" without either
	Version string
	Commit  string // 12 digits, with "+changes" if files had been changed; empty where it is unknown
	Go      string
}

// stamped is the version of a program that was built where Go finds no repository, such as an
// image: go build -ldflags '-X github.com/ringfence/ringfence/internal/version.stamped=v0.1.0'
var stamped string

// Of returns the version of the running program.
func Of() Info {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: "unknown"}
	}
	return of(b)
}

func of(b *debug.BuildInfo) Info {
	i := Info{Version: b.Main.Version, Go: b.GoVersion}
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = cmp.Or(stamped, "unknown")
	}
	changed := false
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed && i.Commit != "" {
		i.Commit += "+changes"
	}
	return i
}

// String returns the version in one line, for people.
func (i Info) String() string {
	var in []string
	if i.Commit != "" {
		in = append(in, "commit "+i.Commit)
	}
	if i.Go != "" {
		in = append(in, i.Go)
	}
	if len(in) == 0 {
		return i.Version
	}
	return fmt.Sprintf("%s (%s)", i.Version, strings.Join(in, ", "))
}
