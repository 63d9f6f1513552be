package password

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

const (
	// maxLength is more than any token that serves as a password needs; those of Azure have up to 4
	// KB.
	maxLength = 16 << 10
	// absence is how long a file may be missing or empty: it is being replaced.
	absence = time.Second
)

var (
	errEmpty = errors.New("the password is empty")
	errLong  = fmt.Errorf("longer than %d bytes, so it is no password", maxLength)
	errNUL   = errors.New("the password has a NUL byte")
)

// readFile reads a file that somebody may be replacing.
func readFile(ctx context.Context, name string) (string, error) {
	for begin := time.Now(); ; {
		text, err := contentOf(name)
		replaced := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errEmpty)
		if !replaced || time.Since(begin) > absence || ctx.Err() != nil {
			return text, err
		}
		backoff.Pause(ctx, 20*time.Millisecond)
	}
}

func contentOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", withoutName(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLength+1))
	if err != nil {
		return "", withoutName(err)
	}
	return clean(text)
}

// withoutName leaves out the file's name, which the caller adds.
func withoutName(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// clean removes one newline at the end. An error does not quote the text.
func clean(text []byte) (string, error) {
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > maxLength:
		return "", errLong
	case password == "":
		return "", errEmpty
	case strings.ContainsRune(password, 0):
		return "", errNUL
	}
	return password, nil
}
