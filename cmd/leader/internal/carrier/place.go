package carrier

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
)

// ownFolder returns a Unix socket in a new folder of this user, whose name is 80 random bits.
// Nothing has the folder's name before or after.
func ownFolder(kind string) (address string, remove func(), err error) {
	// the path of a socket is short
	dir := filepath.Join(os.TempDir(), "rf-"+strings.ToLower(rand.Text()[:16]))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	name := kind + ".sock"
	if kind == "postgres" {
		name = postgresSocket + "5432"
	}
	return unixPrefix + filepath.Join(dir, name), func() { _ = os.RemoveAll(dir) }, nil
}
