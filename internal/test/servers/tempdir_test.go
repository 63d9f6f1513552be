package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

func TestTempRootIsNotUsedIfAnotherAccountCannotEnterIt(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private")
	open := filepath.Join(private, "open")
	must.Succeed(t, os.Mkdir(private, 0o700))
	must.Succeed(t, os.Mkdir(open, 0o777))
	t.Setenv("TMPDIR", open)
	if got := tempRoot(&account{}); got != "/tmp" {
		t.Error("for another account:", got)
	}
	if got := tempRoot(nil); len(open) <= maxTempDir && got != open {
		t.Error("for the caller itself:", got)
	}
}

func TestTempRootIsNotUsedIfASocketPathWouldBeTooLong(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp/"+strings.Repeat("x", maxTempDir))
	if got := tempRoot(nil); got != "/tmp" {
		t.Error(got)
	}
}
