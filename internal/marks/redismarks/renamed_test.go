package redismarks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// No server here has STRALGO, which a guard passes on for Redis 6.2.
func TestAServerWithRenamedCommandsIsRefusedByName(t *testing.T) {
	t.Parallel()
	for renamed, want := range map[string]string{
		"FLUSHALL STRALGO":                     "FLUSHALL under the name STRALGO",
		"DEBUG stralgo":                        "DEBUG under the name STRALGO",
		"HSET XHSET":                           "lacks HSET:",
		"INFO X.INFO":                          "INFO",
		"CLIENT xclient":                       "CLIENT",
		"EVALSHA x1 XREAD x2":                  "lacks EVALSHA, XREAD:",
		"COMMAND XCOMMAND":                     "COMMAND",
		"SETRANGE SR XADD XA":                  "lacks SETRANGE, XADD:",
		"FLUSHALL XFLUSH KEYS XKEYS":           "",
		"CONFIG \"\" DEBUG \"\" SHUTDOWN \"\"": "",
	} {
		t.Run(renamed, func(t *testing.T) {
			var args []string
			words := strings.Fields(renamed)
			for i := 0; i < len(words); i += 2 {
				args = append(args, "--rename-command", words[i], strings.Trim(words[i+1], `"`))
			}
			server := serverstest.Redis(t, servers.RedisOptions{Args: args})
			s, err := redismarks.Open(t.Context(), server.URL(), redismarks.Options{
				Commands: redismarks.Commands{
					"STRALGO": false, "KEYS": false, "VADD": true, "GET": false, "CONFIG": false,
				},
			})
			if err == nil {
				s.Close()
			}
			setup, refused := errors.AsType[*fence.SetupError](err)
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want != "" &&
				(!refused || !strings.Contains(strings.ToUpper(setup.What), strings.ToUpper(want)) ||
					!strings.Contains(setup.What+setup.Hint, "rename-command") ||
					strings.Contains(setup.Hint, "needs Redis 6.2")):
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
