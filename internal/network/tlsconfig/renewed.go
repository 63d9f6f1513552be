package tlsconfig

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// lookEvery is how often files are looked at, at most.
const lookEvery = time.Second

// renewed is what was read of files that may be replaced.
type renewed[T any] struct {
	read func(Files) (T, error)
	used func(T) // called under the mutex when a value comes into use; may be nil

	mu      sync.Mutex
	files   Files
	value   T
	version string    // of the files that were read last
	failed  string    // the version that could not be used, if there was one
	looked  time.Time // when the files were last looked at
}

// prepare reads these files. use has them used from now on.
func (r *renewed[T]) prepare(f Files) (use func(), err error) {
	now, version := time.Now(), f.version() // before the files, which may change meanwhile
	value, err := r.read(f)
	if err != nil {
		return nil, err
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.files, r.version, r.looked = f, version, now
		r.set(value)
	}, nil
}

func (r *renewed[T]) set(value T) {
	r.value = value
	if r.used != nil {
		r.used(value)
	}
}

// current returns the newest value that can be read. It tries files that cannot be used again, such
// as a certificate whose key is still to come, and returns their error once.
func (r *renewed[T]) current() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < lookEvery {
		return r.value, nil
	}
	r.looked = time.Now()
	version := r.files.version()
	if version == r.version {
		return r.value, nil
	}
	value, err := r.read(r.files)
	if err == nil {
		r.version = version
		r.set(value)
	} else if r.failed == version {
		err = nil
	}
	r.failed = version
	return r.value, err
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
