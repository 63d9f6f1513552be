package redisguard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
)

// Settings are those of one Redis server, with what a guard does by them. Their names begin with
// GUARD_REDIS_ or, for the server cache, GUARD_REDIS_CACHE_.
type Settings struct {
	guard.Endpoints
	IdleTimeout     time.Duration `env:"IDLE_TIMEOUT" envDefault:"5m" use:"serving"`
	TrustedCommands []string      `env:"TRUSTED_COMMANDS"`
}

var _ guard.Upstream = (*Settings)(nil)

// Texts implements settings.Described.
func (*Settings) Texts() settings.Texts { return texts }

var texts = settings.Texts{
	"LISTEN": {Meaning: `
		address to listen on for Redis clients, such as :7379, unix:/path or systemd:name. Unset: no
		Redis`},
	"UPSTREAM": {Meaning: `
		URL of the Redis server behind the guard, redis://guard@host:6379/0, or rediss:// for
		TLS, with ?sslrootcert=, sslcert=, sslkey= and sslmode=verify-full, verify-ca or require.
		redis+sentinel://guard@host1,host2,host3/NAME (rediss+sentinel for TLS) names Sentinels, with
		?sentinel_user= and sentinel_password_file= if they ask for a login.
		password_file= or password_command= say where a password is that may change.
		Marks are in database 0, whatever number the URL names, since sessions can select any`},
	"IDLE_TIMEOUT": {Meaning: `
		how long a Redis client without a token may be idle. Each command restarts it`},
	"TRUSTED_COMMANDS": {Meaning: `
		commands of modules, or of a newer server, that pass for a session with a token; NAME or
		NAME|SUBCOMMAND, separated by commas. Others that the guard does not know are refused`},
}

// URLs implements guard.Upstream.
func (s *Settings) URLs() []settings.URL { return []settings.URL{s.Upstream} }

// Check implements guard.Upstream.
func (s *Settings) Check(prefix string) (problems []error) {
	err := s.Upstream.Check(prefix+"UPSTREAM", redismarks.CheckURL, redismarks.Schemes...)
	if err != nil {
		problems = append(problems, err)
	}
	if s.IdleTimeout <= 0 {
		problems = append(problems,
			fmt.Errorf("%sIDLE_TIMEOUT is %s: it must be above 0", prefix, s.IdleTimeout))
	}
	if _, err := parseTrusted(s.TrustedCommands); err != nil {
		problems = append(problems, fmt.Errorf("%sTRUSTED_COMMANDS: %w", prefix, err))
	}
	return problems
}

// trusted returns the commands that the operator trusts. Check has looked at the names.
func (s *Settings) trusted() trusted {
	t, _ := parseTrusted(s.TrustedCommands)
	return t
}

// commands are what clients may send.
func (s *Settings) commands() redismarks.Commands {
	all := make(redismarks.Commands)
	for name, r := range passing() {
		all[name] = r.module
	}
	for name := range s.trusted() {
		if command, _, isSub := strings.Cut(name, "|"); !isSub || rules[command] == nil {
			all[command] = true
		}
	}
	return all
}

// Database implements guard.Upstream: a server is one store.
func (s *Settings) Database() string { return "" }

// Open implements guard.Upstream. When Redis has lost a mark, only a coordinator knows the leader.
func (s *Settings) Open(ctx context.Context, c guard.Common, _ func()) (guard.Store, error) {
	return redismarks.Open(ctx, s.Upstream.Reveal(), redismarks.Options{
		Coordinated: c.Coordinated, Commands: s.commands(), Timeouts: c.Timeouts, Reserved: true,
		Primary: c.Primary,
	})
}

// Serve implements guard.Upstream.
func (s *Settings) Serve(with guard.Service) guard.Protocol {
	return New(Options{
		Name: with.Name, Store: with.Store.(*redismarks.Store), Admission: with.Admission,
		LoginTimeout: with.LoginTimeout, IdleTimeout: s.IdleTimeout, SessionIdleTimeout: with.IdleTimeout,
		Resources: with.Resources, TLS: with.TLS, trusted: s.trusted(),
	})
}

// OpenAuthorizer implements guard.Upstream.
func (s *Settings) OpenAuthorizer(ctx context.Context, c guard.Common) (guard.Authorizer, error) {
	return redismarks.Open(ctx, s.Upstream.Reveal(), redismarks.Options{Timeouts: c.Timeouts})
}

// Install implements guard.Upstream.
func (s *Settings) Install(ctx context.Context) ([]string, error) {
	store, err := redismarks.Open(ctx, s.Upstream.Reveal(), redismarks.Options{
		Connections: 1, Commands: s.commands(),
	})
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	store.Close()
	return nil, redismarks.Install(ctx, s.Upstream.Reveal())
}

// Image implements guard.Upstream.
func (s *Settings) Image(ctx context.Context) (string, error) {
	return redismarks.Image(ctx, s.Upstream.Reveal())
}

// InstallFunctions loads the functions for programs in other languages. missing says why the server
// has none although nothing failed.
func (s *Settings) InstallFunctions(ctx context.Context) (missing string, err error) {
	return redismarks.LoadFunctions(ctx, s.Upstream.Reveal())
}

// Script implements guard.Upstream.
func (s *Settings) Script() (string, error) { return redismarks.InstallText(s.Upstream.Reveal()) }

// Uninstall implements guard.Upstream.
func (s *Settings) Uninstall(ctx context.Context, o marks.Removing) (marks.Removal, error) {
	return redismarks.Uninstall(ctx, s.Upstream.Reveal(), o)
}
