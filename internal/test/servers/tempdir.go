package servers

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxTempDir keeps the path of a Unix socket in the directory below the 104 bytes of macOS (Linux:
// 108).
const maxTempDir = 70

// newDir creates the directory of a server. Its owner is the server's account.
func newDir(name string, a *account) (string, error) {
	dir, err := os.MkdirTemp(tempRoot(a), "rf-"+name+"-")
	if err != nil {
		return "", err
	}
	// Postgres reports the real path of its data directory.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if err := a.own(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// removeDir removes the directory of a server that has ended. A child that was saving, such as
// Redis' for an RDB file, may write there for a moment longer.
func removeDir(dir string) error {
	const patience = 10 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Now().After(end) {
			return err
		}
	}
}

// tempRoot returns the default temporary directory, or /tmp if a Unix socket's path would be too
// long in the default one, or another account could not enter it.
func tempRoot(a *account) string {
	root := os.TempDir()
	if len(root) > maxTempDir || a != nil && !openToAll(root) {
		return "/tmp"
	}
	return root
}

// openToAll reports whether every account may enter the directory and all its parents.
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
