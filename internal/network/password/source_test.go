package password

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
)

// written returns the name of a file with this text.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	rewrite(t, name, text)
	return name
}

// rewrite replaces a file as most tools do.
func rewrite(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name+".new", []byte(text), 0o600))
	must.Succeed(t, os.Rename(name+".new", name))
}

func source(t *testing.T, file, command string) *Source {
	t.Helper()
	s, err := New(file, command)
	must.Succeed(t, err)
	return s
}

func TestCutRemovesTheOptions(t *testing.T) {
	for query, want := range map[string]string{
		"password_file=/run/a&sslmode=require": "password_file /run/a",
		"password_command=tool+--user+a%40b":   "password_command tool",
		"sslmode=require":                      "",
	} {
		q, _ := url.ParseQuery(query)
		s, err := Cut(q)
		got := ""
		if s != nil {
			got = s.String()
		}
		if err != nil || got != want || strings.Contains(q.Encode(), "password") {
			t.Errorf("%s: %q, %v, and %q is left", query, got, err, q.Encode())
		}
	}
	q, _ := url.ParseQuery("password_command=tool+--user+a%40b")
	if s, err := Cut(q); err != nil || strings.Join(s.command, "|") != "tool|--user|a@b" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"password_file=/a&password_command=b", "password_command=+",
		"password_file=",
		"password_file=a&password_file=b"} {
		q, _ := url.ParseQuery(bad)
		if s, err := Cut(q); err == nil {
			t.Errorf("%s is taken: %v", bad, s)
		}
	}
}

func TestAFileIsReadAgainEachTime(t *testing.T) {
	name := written(t, "first\n")
	s := source(t, name, "")
	for text, want := range map[string]string{"a b\r\n": "a b", " c ": " c ", "d\n\n": "d\n"} {
		rewrite(t, name, text)
		if got, err := s.Read(t.Context()); err != nil || got != want {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
}

func TestAFileThatIsBeingReplacedIsWaitedFor(t *testing.T) {
	for state, before := range map[string]func(name string) error{
		"missing": os.Remove,
		"empty":   func(name string) error { return os.Truncate(name, 0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			name := written(t, "old")
			must.Succeed(t, before(name))
			read := make(chan string)
			go func() {
				got, err := source(t, name, "").Read(t.Context())
				if err != nil {
					got = err.Error()
				}
				read <- got
			}()
			synctest.Wait() // it pauses
			rewrite(t, name, "new")
			if got := <-read; got != "new" {
				t.Errorf("%s: %s", state, got)
			}
		})
	}
}

func TestAFileThatHasNoPasswordIsNamed(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		filepath.Join(dir, "none"):                   "no such file",
		written(t, "\n"):                             "the password is empty",
		written(t, strings.Repeat("x", maxLength+1)): "longer than",
		written(t, "s3cret\x00"):                     "NUL",
		dir:                                          "is a directory",
		written(t, "s3cret\x00") + "/below-no-folder": "not a directory",
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			got, err := source(t, name, "").Read(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), name) != 1 ||
				strings.Contains(err.Error(), "s3cret") || got != "" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if took := time.Since(begin); took > 2*absence {
				t.Errorf("%s: it took %s", name, took)
			}
		})
	}
}

var errWrong = errors.New("wrong password")

func wrong(err error) bool { return errors.Is(err, errWrong) }

// server accepts one password at a time.
type server struct{ accepts atomic.Value }

func (s *server) logIn(password string) error {
	if s.accepts.Load() != password {
		return errWrong
	}
	return nil
}

func TestFileAndServerMayChangeInEitherOrder(t *testing.T) {
	for _, order := range []string{"file first", "server first"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := written(t, "p0")
				s, srv := source(t, file, ""), &server{}
				srv.accepts.Store("p0")
				for _, next := range []string{"p1", "p2", "p3"} {
					changeFile := func() { rewrite(t, file, next) }
					changeServer := func() { srv.accepts.Store(next) }
					if order == "server first" {
						changeFile, changeServer = changeServer, changeFile
					}
					changeFile()
					done := make(chan error)
					for range 3 {
						go func() { done <- s.Login(t.Context(), wrong, srv.logIn) }()
					}
					time.Sleep(patience * 9 / 10) // of the test's own clock
					changeServer()
					for range 3 {
						if err := <-done; err != nil {
							t.Errorf("%s: %v", next, err)
						}
					}
				}
			})
		})
	}
}

func TestAWrongPasswordIsRefusedAtOnceFromTheSecondTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := written(t, "wr0ng")
		s, srv := source(t, file, ""), &server{}
		srv.accepts.Store("right")
		took := func() time.Duration {
			begin := time.Now()
			err := s.Login(t.Context(), wrong, srv.logIn)
			if !wrong(err) || !strings.Contains(err.Error(), file) ||
				strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("got %v", err)
			}
			return time.Since(begin)
		}
		if first := took(); first < patience || first > 2*patience {
			t.Errorf("the first time took %s", first)
		}
		if again := took(); again > 0 {
			t.Errorf("the second time took %s", again)
		}
		rewrite(t, file, "wrong, too")
		if other := took(); other < patience {
			t.Errorf("another password was given up after %s", other)
		}
		rewrite(t, file, "right")
		must.Report(t, s.Login(t.Context(), wrong, srv.logIn))
	})
}

// The server had refused it while it was behind.
func TestAPasswordThatWasAcceptedIsNotGivenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := written(t, "p1")
		s, srv := source(t, file, ""), &server{}
		srv.accepts.Store("p0")
		if err := s.Login(t.Context(), wrong, srv.logIn); !wrong(err) {
			t.Error(err)
		}
		srv.accepts.Store("p1")
		must.Report(t, s.Login(t.Context(), wrong, srv.logIn))
		srv.accepts.Store("p2")
		done := make(chan error)
		go func() { done <- s.Login(t.Context(), wrong, srv.logIn) }()
		time.Sleep(time.Second)
		rewrite(t, file, "p2")
		must.Report(t, <-done)
	})
}

func TestALoginThatRunsOutOfTimeIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, srv := source(t, written(t, "p1"), ""), &server{}
		srv.accepts.Store("p0")
		limited := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return s.Login(ctx, wrong, srv.logIn)
		}
		if err := limited(); !errors.Is(err, context.DeadlineExceeded) || wrong(err) {
			t.Errorf("got %v", err)
		}
		time.Sleep(patience)
		if err := limited(); !wrong(err) {
			t.Errorf("the password was refused for %s, and the next login returned %v", patience, err)
		}
	})
}

func TestOtherErrorsAreReturnedAtOnce(t *testing.T) {
	down := errors.New("no connection")
	tries := 0
	err := source(t, written(t, "p"), "").Login(t.Context(), wrong, func(string) error {
		tries++
		return down
	})
	if !errors.Is(err, down) || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
	var none *Source
	err = none.Retry(t.Context(), wrong, func() error { tries++; return errWrong })
	none.Accepted()
	if err != errWrong || tries != 2 {
		t.Errorf("without a source: %v, %d tries", err, tries)
	}
}
