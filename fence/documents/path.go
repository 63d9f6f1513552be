package documents

import (
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

const (
	maxSegment = 128 // bytes
	maxPath    = 512
)

// CheckFolder checks the path of a folder: one or more names, separated by '/'. A name has letters,
// digits, '.', '_', '-' and '=', at most 128 bytes, and is neither "." nor "..". Anything else is
// ErrBadPath.
func CheckFolder(folder string) error {
	if len(folder) > maxPath {
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrBadPath, len(folder), maxPath)
	}
	for segment := range strings.SplitSeq(folder, "/") {
		if !good(segment) {
			return fmt.Errorf("%w: %.140q in %.140q: a name has letters, digits, '.', '_', '-' and '=', "+
				"at most %d bytes, and is not one dot or two", ErrBadPath, segment, folder, maxSegment)
		}
	}
	return nil
}

// CheckPath checks the path of a document: a folder and a name in it.
func CheckPath(path string) error {
	if err := CheckFolder(path); err != nil {
		return err
	}
	if !strings.Contains(path, "/") {
		return fmt.Errorf("%w: %q has no folder", ErrBadPath, path)
	}
	return nil
}

func good(segment string) bool {
	if segment == "" || segment == "." || segment == ".." || len(segment) > maxSegment {
		return false
	}
	for _, c := range []byte(segment) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("._-=", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// Check checks a read as far as that is possible without the coordinator. Every Store calls it.
func (r Read) Check() error {
	for _, p := range r.Paths {
		if err := CheckPath(p); err != nil {
			return err
		}
	}
	return checkResources(r.While)
}

// Check checks a change as far as that is possible without the coordinator. Every Store calls it.
func (c Change) Check() error {
	if len(c.Writes) > MaxWrites {
		return fmt.Errorf("%w: it has %d writes, at most %d are allowed", ErrBadChange, len(c.Writes),
			MaxWrites)
	}
	seen := map[string]bool{}
	for _, w := range c.Writes {
		switch err := CheckPath(w.Path); {
		case err != nil:
			return err
		case seen[w.Path]:
			return fmt.Errorf("%w: it writes %s twice", ErrBadChange, w.Path)
		case w.Kind < KindPut || w.Kind > KindCheck:
			return fmt.Errorf("%w: a write of %s has no kind", ErrBadChange, w.Path)
		case w.Kind != KindPut && w.Version == 0:
			return fmt.Errorf("%w: there is no version of %s to delete or to check", ErrBadChange, w.Path)
		case w.Version == AnyVersion && w.Kind == KindDelete:
		case w.Version < 0:
			return fmt.Errorf("%w: %s has no version %d", ErrBadChange, w.Path, w.Version)
		}
		seen[w.Path] = true
	}
	return checkResources(c.While)
}

func checkResources(claims []fence.Claim) error {
	for _, claim := range claims {
		if _, err := fence.ParseResource(string(claim.Resource)); err != nil {
			return err
		}
	}
	return nil
}
