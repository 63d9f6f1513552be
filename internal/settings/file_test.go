package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

func inFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestAFileFillsInWhatTheEnvironmentLacks(t *testing.T) {
	file := inFile(t,
		"# a comment\n ; another\n\nT_LISTEN=:1\nT_TIMEOUT= 4s \nT_NAME='a \"b\" #c \\n'\r\n"+
			"T_KEY=\"it's\"  \nT_QUIET=\nT_GRACE=3s")
	got, err := settings.WithFile([]string{"T_LISTEN=:2", "T_GRACE=", "PATH=/bin"}, file, "T_")
	want := []string{
		"T_LISTEN=:2", "T_GRACE=", "PATH=/bin",
		"T_TIMEOUT=4s", `T_NAME=a "b" #c \n`, "T_KEY=it's", "T_QUIET=", "T_GRACE=3s",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEveryBadLineOfAFileIsListedWithoutItsValue(t *testing.T) {
	const secret = "s3cr3t"
	file := inFile(t, strings.Join([]string{
		"T_A", "T_B =" + secret, "PATH=" + secret, "T_C='" + secret, `T_D="` + secret + `\""`, "T_E=" +
			secret + "'",
		"T_F='" + secret + "'x", "export T_G=" + secret, "T_H=good",
	}, "\n"))
	_, err := settings.WithFile(nil, file, "T_")
	problems, ok := errors.AsType[settings.Problems](err)
	if !ok || len(problems) != 8 {
		t.Fatalf("want 8 problems, got %v", err)
	}
	for _, want := range []string{"line 1", "line 2", "PATH does not begin with T_", "line 8"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the secret is in %v", err)
	}
	if _, err := settings.WithFile(nil, filepath.Join(t.TempDir(), "none"), "T_"); err == nil {
		t.Error("no error without the file")
	}
}

func TestChangedNamesTheSettingsThatDiffer(t *testing.T) {
	a, err := load(t, "T_LISTEN=:1", "T_TIMEOUT=3s", "T_STORES=redis://a,redis://b")
	must.Succeed(t, err)
	b, err := load(t, "T_LISTEN=:1", "T_TIMEOUT=4s", "T_STORES=redis://a,redis://c",
		"T_MOST_SESSIONS=7")
	must.Succeed(t, err)
	want := []string{"T_TIMEOUT", "T_STORES", "T_MOST_SESSIONS"}
	if got := settings.Changed(&a, &b); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := settings.Changed(&a, &a); len(got) != 0 {
		t.Errorf("%q differ from themselves", got)
	}
}
