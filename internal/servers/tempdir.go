package servers

import (
	"errors"
	"os"
	"path/filepath"
)

// longestTempDir keeps the path of a unix socket in the directory below the 104
// bytes of macOS (Linux: 108).
const longestTempDir = 70

// newDir makes the directory of a server, owned by the account it runs as.
func newDir(name string, a *account) (string, error) {
	dir, err := os.MkdirTemp(tempRoot(a), "rf-"+name+"-")
	if err != nil {
		return "", err
	}
	// Postgres gives its data directory's real path in answers and logs.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if err := a.own(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// tempRoot is the default temporary directory, or /tmp when a unix socket's path
// would be too long there or another account could not get in.
func tempRoot(a *account) string {
	root := os.TempDir()
	if len(root) > longestTempDir || a != nil && !openToAll(root) {
		return "/tmp"
	}
	return root
}

// openToAll reports whether every account may pass through the directory and
// all its parents.
func openToAll(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}
