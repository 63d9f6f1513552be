package password

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// The options of a URL.
const (
	FileOption    = "password_file"
	CommandOption = "password_command"
)

// patience is how long a server may refuse a login while password and server change. It is shorter
// than an admission may take.
const patience = 5 * time.Second

// Source is where a password comes from. Its methods may be called from any goroutine. A nil Source
// stands for a password that never changes: Retry calls once.
type Source struct {
	file    string
	command []string
	runs    runs

	mu      sync.Mutex
	last    string    // the password that was read last
	refused string    // the password that the server refuses, or ""
	since   time.Time // when it refused that first
}

// New returns nil if neither a file nor a command is given.
func New(file, command string) (*Source, error) {
	argv := strings.Fields(command)
	switch {
	case file != "" && command != "":
		return nil, errors.New("a URL has either " + FileOption + " or " + CommandOption)
	case file == "" && command == "":
		return nil, nil
	case file == "" && len(argv) == 0:
		return nil, errors.New(CommandOption + " names no command")
	}
	return &Source{file: file, command: argv, runs: newRuns()}, nil
}

// Cut removes the options from the query of a URL. It returns nil if there are none.
func Cut(query url.Values) (*Source, error) {
	for _, option := range []string{FileOption, CommandOption} {
		if all, set := query[option]; set && (len(all) != 1 || all[0] == "") {
			return nil, fmt.Errorf("option %s in a URL needs one value", option)
		}
	}
	s, err := New(query.Get(FileOption), query.Get(CommandOption))
	query.Del(FileOption)
	query.Del(CommandOption)
	return s, err
}

// String names the option and the file or the program, without the program's arguments.
func (s *Source) String() string {
	if s.file != "" {
		return FileOption + " " + s.file
	}
	return CommandOption + " " + s.command[0]
}

// Read returns the present password.
func (s *Source) Read(ctx context.Context) (password string, err error) {
	if s.file != "" {
		password, err = readFile(ctx, s.file)
	} else {
		password, err = s.runs.run(ctx, s.command)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", s, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = password
	return password, nil
}

// Login logs in by try, with the present password, and again while the server refuses it. If ctx
// ends first, the error is ctx's, because a later login may succeed.
func (s *Source) Login(
	ctx context.Context, refused func(error) bool, try func(password string) error,
) error {
	return s.Retry(ctx, refused, func() error {
		password, err := s.Read(ctx)
		if err != nil {
			return err
		}
		if err = try(password); err == nil {
			s.Accepted()
		}
		return err
	})
}

// Retry is Login for a try that reads the password itself, if it logs in at all. Call Accepted when
// it has logged in.
func (s *Source) Retry(ctx context.Context, refused func(error) bool, try func() error) error {
	if s == nil {
		return try()
	}
	for n := 1; ; n++ {
		err := try()
		if err == nil || !refused(err) {
			return err
		}
		if !s.again() {
			return fmt.Errorf("%w (the password is that of %s)", err, s)
		}
		backoff.Pause(ctx, backoff.After(n, 10*time.Millisecond, 250*time.Millisecond))
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s", context.Cause(ctx), strings.Join(strings.Fields(err.Error()), " "))
		}
	}
}

// again reports whether to try again after a refusal.
func (s *Source) again() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs.forget(s.last)
	if s.refused != s.last {
		s.refused, s.since = s.last, time.Now()
	}
	return time.Since(s.since) <= patience
}

// Accepted notes that the server has accepted the password: if it refuses the same one later, the
// server's has changed.
func (s *Source) Accepted() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = ""
}
