package tlsconfig

import (
	"fmt"
	"os"
	"time"
)

// seen is what is known of files that may be replaced.
type seen struct {
	version string    // of the files that were read last
	looked  time.Time // when the files were last looked at
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// see looks at files that are about to be read.
func see(f Files) seen { return seen{f.version(), time.Now()} }

// look returns the version of the files, and whether it is another one than that which was read last.
func (s *seen) look(f Files) (version string, changed bool) {
	if time.Since(s.looked) < lookEvery {
		return s.version, false
	}
	s.looked = time.Now()
	version = f.version()
	return version, version != s.version
}

// version changes when one of the files does.
func (f Files) version() string {
	v := ""
	for _, name := range []string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			v += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), "\n")
		} else {
			v += "-\n"
		}
	}
	return v
}
