package settings_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

type limits struct {
	Sessions int `env:"SESSIONS" envDefault:"100"`
}

type config struct {
	Listen  string          `env:"T_LISTEN,required"`
	Timeout time.Duration   `env:"T_TIMEOUT" envDefault:"10s"`
	Grace   time.Duration   `env:"T_GRACE"`
	Key     settings.Secret `env:"T_KEY"`
	Store   settings.URL    `env:"T_STORE"`
	Stores  settings.URLs   `env:"T_STORES"`
	Level   slog.Level      `env:"T_LOG" envDefault:"info"`
	Quiet   bool            `env:"T_QUIET"`
	Limits  limits          `envPrefix:"T_MOST_"`
}

func (*config) Texts() settings.Texts {
	return settings.Texts{
		"T_MOST_SESSIONS": {Meaning: "most sessions"},
		"T_LISTEN":        {Meaning: "address to listen on"},
		"T_TIMEOUT":       {Meaning: "how long to wait"},
		"T_GRACE":         {Meaning: "time to stop", Default: "a fifth of T_TIMEOUT"},
		"T_KEY":           {Meaning: "a secret"},
		"T_STORE":         {Meaning: "a store"},
		"T_STORES":        {Meaning: "more stores"},
		"T_LOG":           {Meaning: "log level"},
		"T_QUIET":         {Meaning: "say less"},
	}
}

func (c *config) Validate() error {
	if c.Timeout <= 0 {
		return errors.Join(errors.New("T_TIMEOUT must be above 0"), errors.New("really"))
	}
	return nil
}

func load(t *testing.T, environ ...string) (config, error) {
	t.Helper()
	var c config
	err := settings.Load(&c, "T_", environ)
	return c, err
}

func TestUnsetAndEmptyVariablesHaveTheirDefault(t *testing.T) {
	c, err := load(t, "T_LISTEN=:1", "T_TIMEOUT=", "OTHER=x")
	must.Succeed(t, err)
	if c.Timeout != 10*time.Second || c.Limits.Sessions != 100 || c.Level != slog.LevelInfo ||
		c.Grace != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestGivenValuesAreRead(t *testing.T) {
	c, err := load(t, "T_LISTEN=:1", "T_TIMEOUT=3s", "T_LOG=debug", "T_QUIET=true",
		"T_MOST_SESSIONS=7",
		"T_STORES=postgres://a:1,b:2/db, redis://c")
	must.Succeed(t, err)
	want := settings.URLs{"postgres://a:1,b:2/db", "redis://c"}
	if c.Timeout != 3*time.Second || !c.Quiet || c.Limits.Sessions != 7 ||
		!reflect.DeepEqual(c.Stores, want) {
		t.Errorf("got %+v", c)
	}
}

func TestEveryProblemIsListedAtOnce(t *testing.T) {
	_, err := load(t, "T_TIMEOUT=10", "T_TIMEOT=5s", "T_QUIET=perhaps", "T_MOST_SESSIONS=many",
		"T_STORE=nowhere",
		"T_COMPLETELY_DIFFERENT=1", "T_LOG=loud")
	problems, ok := errors.AsType[settings.Problems](err)
	if !ok || len(problems) != 8 {
		t.Fatalf("want 8 problems, got %v", err)
	}
	for _, want := range []string{
		"8 problems", "T_LISTEN is required", `T_TIMEOUT="10": not a duration such as`,
		"T_TIMEOT is not a setting; did you mean T_TIMEOUT?",
		`T_QUIET="perhaps"`, `T_MOST_SESSIONS="many"`, "T_STORE: not a URL",
		"T_COMPLETELY_DIFFERENT is not a setting; --help",
		`T_LOG="loud"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestProblemsOfValidateAreListed(t *testing.T) {
	_, err := load(t, "T_LISTEN=:1", "T_TIMEOUT=-1s")
	problems, _ := errors.AsType[settings.Problems](err)
	if len(problems) != 2 {
		t.Fatalf("want both of Validate's problems, got %v", err)
	}
}

func TestEmptyRequiredVariableIsMissing(t *testing.T) {
	if _, err := load(t, "T_LISTEN="); err == nil ||
		!strings.Contains(err.Error(), "T_LISTEN is required") {
		t.Errorf("got %v", err)
	}
}

func (*config) Removed() map[string]string {
	return map[string]string{"T_TIMEOUTS": "set T_TIMEOUT for each"}
}

// It is near to another one, and may be empty: neither makes it a misspelling.
func TestASettingThatIsGoneSaysWhatToDoInstead(t *testing.T) {
	const want = "T_TIMEOUTS is not a setting any more: set T_TIMEOUT for each"
	for _, value := range []string{"1s", ""} {
		if _, err := load(t, "T_LISTEN=:1", "T_TIMEOUTS="+value); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestEmptyUnknownVariableIsStillUnknown(t *testing.T) {
	if _, err := load(t, "T_LISTEN=:1", "T_TIMEOT="); err == nil {
		t.Error("a misspelt variable passed because it was empty")
	}
}

func TestKubernetesServiceLinksAreIgnored(t *testing.T) {
	_, err := load(t, "T_LISTEN=:1", "T_SERVICE_HOST=10.0.0.1", "T_SERVICE_PORT=5432",
		"T_SERVICE_PORT_PG=5432",
		"T_PORT=tcp://10.0.0.1:5432", "T_PORT_5432_TCP=tcp://10.0.0.1:5432",
		"T_PORT_5432_TCP_ADDR=10.0.0.1",
		"T_REDIS_PORT=tcp://10.0.0.1:6379")
	must.Report(t, err)
	if _, err := load(t, "T_LISTEN=:1", "T_PORT=5432"); err == nil {
		t.Error("T_PORT, which is not a service link, was ignored")
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	const secret = "s3cr3t"
	environ := []string{
		"T_LISTEN=:1", "T_KEY=" + secret,
		"T_STORE=postgres://u:" + secret + "@h/db?sslpassword=" + secret + "&x=1",
		"T_STORES=redis://:" + secret + "@h,zk://u:a/" + secret + "@h",
	}
	c, err := load(t, environ...)
	must.Succeed(t, err)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).LogAttrs(t.Context(), slog.LevelInfo, "start",
		settings.Effective(&c)...)
	asJSON, err := json.Marshal([]any{c.Store, c.Stores})
	must.Succeed(t, err)
	_, bad := load(t, "T_LISTEN=:1", "T_STORE="+secret, "T_STORES=redis://h, ://"+secret)
	for _, text := range []string{
		log.String(), string(asJSON), fmt.Sprint(c.Store, c.Stores),
		fmt.Sprintf("%#v %#v", c.Store, c.Stores),
		c.Store.Scrub(`parse "` + c.Store.Reveal() + `": password ` + secret), fmt.Sprint(bad),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the secret shows in %s", text)
		}
	}
	if got, want := c.Store.String(), "postgres://u:xxxxx@h/db?sslpassword=xxxxx&x=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !strings.Contains(c.Store.Reveal(), secret) {
		t.Error("Reveal masks")
	}
}

func TestScrubLeavesTheUsersNameWhereItIsThePasswordToo(t *testing.T) {
	u := settings.URL("postgres://guard:guard@h/db")
	if got, want := u.Scrub(`set it for guard; `+u.Reveal()),
		`set it for guard; postgres://guard:xxxxx@h/db`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestURLWithoutSecretsIsPrintedUnchanged(t *testing.T) {
	for _, u := range []settings.URL{
		"zk://a:2181,b:2181/root", "postgres://user@h:1/db?sslmode=disable", "redis://h/1",
	} {
		if u.String() != string(u) {
			t.Errorf("%s became %s", string(u), u)
		}
	}
}

func TestHelpShowsEverySettingWithDefaultAndMeaning(t *testing.T) {
	var b bytes.Buffer
	must.Succeed(t, settings.Help(&b, &config{}))
	for _, want := range []string{
		"T_LISTEN (required)\n      address to listen on\n", "T_TIMEOUT (default: 10s)",
		"T_GRACE (default: a fifth of T_TIMEOUT)",
		"T_KEY (not set by default)", "T_STORE", "T_STORES", "T_LOG (default: info)", "T_QUIET",
		"T_MOST_SESSIONS (default: 100)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

// site is a group of settings.
type site struct {
	URL   settings.URL `env:"URL"`
	Limit int          `env:"LIMIT" envDefault:"3"`
}

type sites struct {
	Names []string `env:"T_SITES"`
	Limit int      `env:"T_LIMIT"`

	all map[string]*site
}

func (*sites) Texts() settings.Texts { return settings.Texts{"T_SITES": {}, "T_LIMIT": {}} }

// Groups implements settings.Grouped.
func (s *sites) Groups() (groups []settings.Group) {
	if s.all == nil {
		s.all = make(map[string]*site)
	}
	for _, n := range s.Names {
		if s.all[n] == nil {
			s.all[n] = &site{}
		}
		groups = append(groups, settings.Group{Prefix: "T_" + strings.ToUpper(n) + "_", Into: s.all[n]})
	}
	return groups
}

func TestASettingNamesGroupsOfSettings(t *testing.T) {
	var s sites
	err := settings.Load(&s, "T_", []string{"T_SITES=a,b", "T_A_URL=x://u:s3cret@h", "T_B_LIMIT=7"})
	if err != nil || s.all["a"].URL.Reveal() != "x://u:s3cret@h" || s.all["a"].Limit != 3 ||
		s.all["b"].Limit != 7 {
		t.Fatalf("%v: %+v, %+v", err, s.all["a"], s.all["b"])
	}
	if logged := fmt.Sprint(settings.Effective(&s)); strings.Contains(logged, "s3cret") ||
		!strings.Contains(logged, "T_B_LIMIT=7") {
		t.Errorf("the log has %s", logged)
	}
}

func TestProblemsOfGroupsAreListedWithTheOthers(t *testing.T) {
	var s sites
	err := settings.Load(&s, "T_", []string{
		"T_SITES=a", "T_LIMIT=many", "T_A_LIMIT=few", "T_A_LIMITS=1", "T_B_LIMIT=1",
	})
	var problems settings.Problems
	if !errors.As(err, &problems) || len(problems) != 4 {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{
		`T_LIMIT="many"`, `T_A_LIMIT="few"`, "did you mean T_A_LIMIT?", "T_B_LIMIT is not a setting",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %s", part, err)
		}
	}
}

func TestAGroupCannotHaveTheNameOfAnotherSetting(t *testing.T) {
	var s sites
	err := settings.Load(&s, "", []string{"T_SITES=a,a"})
	if err == nil || !strings.Contains(err.Error(), "T_A_URL would be two settings") {
		t.Errorf("%v", err)
	}
}

// used are the settings of a program with several commands.
type used struct {
	Name  string `env:"T_NAME"`
	Level int    `env:"T_LEVEL" envDefault:"3" use:"reading"`
	Inner struct {
		Size int    `env:"SIZE" envDefault:"4"`
		Kind string `env:"KIND,required" use:"reading"`
	} `envPrefix:"T_INNER_" use:"writing"`
}

func TestOnlySettingsThatAreUsedAreRead(t *testing.T) {
	environ := []string{"T_NAME=n", "T_LEVEL=high", "T_INNER_SIZE=large"}
	for _, c := range []struct {
		uses []string
		want []string // settings with a problem
	}{
		{nil, nil},
		{[]string{"reading"}, []string{"T_LEVEL", "T_INNER_KIND"}},
		{[]string{"writing"}, []string{"T_INNER_SIZE"}},
		{[]string{"reading", "writing"}, []string{"T_LEVEL", "T_INNER_SIZE", "T_INNER_KIND"}},
	} {
		var u used
		err := settings.Load(&u, "T_", environ, c.uses...)
		problems, _ := err.(settings.Problems)
		if len(problems) != len(c.want) {
			t.Errorf("%q: %v", c.uses, err)
		}
		for _, name := range c.want {
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%q: no %s in %v", c.uses, name, err)
			}
		}
		if u.Name != "n" || u.Level != 3 || u.Inner.Size != 4 {
			t.Errorf("%q: %+v", c.uses, u)
		}
	}
	err := settings.Load(&used{}, "T_", []string{"T_OTHER=1"})
	if err == nil || !strings.Contains(err.Error(), "T_OTHER is not a setting") {
		t.Errorf("an unknown name: %v", err)
	}
	if logged := settings.Effective(&used{}, "writing"); len(logged) != 2 {
		t.Errorf("%v", logged)
	}
}
