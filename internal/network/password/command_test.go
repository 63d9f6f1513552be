package password

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// script makes an executable file.
func script(t *testing.T, lines string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestACommandPrintsThePassword(t *testing.T) {
	tool := script(t, `echo "a warning" >&2; printf '%s|%s\n' "$1" "$2"`)
	got, err := source(t, "", tool+"  --user  '$HOME' ").Read(t.Context())
	if err != nil || got != "--user|'$HOME'" { // no shell has read it
		t.Errorf("%q, %v", got, err)
	}
}

func TestAFailedCommandSaysWhyAndNeverWhatItPrinted(t *testing.T) {
	for what, c := range map[string]struct{ command, want string }{
		"missing":         {"/no/such/tool", "no such file"},
		"not in the PATH": {"no-such-tool-anywhere", "not found"},
		"fails":           {script(t, "echo s3cret; echo; exit 3"), "exit status 3"},
		"fails and says why": {script(t, "echo s3cret; echo 'no role\ns3cret' >&2; exit 1"),
			"exit status 1: no role"},
		"says very much": {script(t, "yes why | head -c 100000 >&2; exit 1"),
			"exit status 1: why"},
		"prints nothing":       {script(t, "true"), "the password is empty"},
		"prints too much":      {script(t, "yes s3cret | head -c 20000"), "longer than"},
		"hangs":                {script(t, "echo s3cret; sleep 1000"), "has not ended within"},
		"hangs with a child":   {script(t, "sleep 1000 & echo s3cret; wait"), "has not ended within"},
		"not a program":        {t.TempDir(), "permission denied"},
		"reads standard input": {script(t, "read x || exit 7"), "exit status 7"},
		"prints bytes and dies": {script(t, `printf '\377\376why\n' >&2; kill -9 $$`), "signal: " +
			"killed: why"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := source(t, "", c.command)
			s.runs.limit = 2 * time.Second
			begin := time.Now()
			got, err := s.Read(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "s3cret") ||
				got != "" || len(err.Error()) > 500 {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if took := time.Since(begin); strings.HasPrefix(what, "hangs") && took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// counting returns a command that prints the number of its run.
func counting(t *testing.T, more string) (command string, runs func() int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	command = script(t, fmt.Sprintf("echo run >> %[1]s; %s\nwc -l < %[1]s", log, more))
	return command, func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "\n")
	}
}

func TestConnectionsThatOpenAtOnceShareOneRun(t *testing.T) {
	for what, more := range map[string]string{
		"that prints a password": "sleep 0.3", "that fails": "sleep 0.3; exit 1",
	} {
		t.Run(what, func(t *testing.T) {
			command, runs := counting(t, more)
			s := source(t, "", command)
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { _, _ = s.Read(t.Context()) })
			}
			all.Wait()
			if n := runs(); n > 2 { // who asks only after the end of a run that failed has another one
				t.Errorf("%d runs", n)
			}
		})
	}
}

func TestARefusedPasswordIsNotUsedAgain(t *testing.T) {
	command, runs := counting(t, "")
	s := source(t, "", command)
	var tried []string
	err := s.Login(t.Context(), wrong, func(password string) error {
		tried = append(tried, strings.TrimSpace(password))
		if len(tried) < 3 {
			return errWrong
		}
		return nil
	})
	if err != nil || strings.Join(tried, " ") != "1 2 3" || runs() != 3 {
		t.Errorf("%v, %q, %d runs", err, tried, runs())
	}
}

func TestARunThatItsCallerGaveUpIsNoAnswerToOthers(t *testing.T) {
	command, runs := counting(t, "")
	s := source(t, "", command)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(ctx); err == nil {
		t.Error("no error")
	}
	if got, err := s.Read(t.Context()); err != nil {
		t.Errorf("%q, %v, %d runs", got, err, runs())
	}
}
