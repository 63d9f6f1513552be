package redismarks

import (
	"context"
	"embed"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

//go:embed lua/*.lua
var lua embed.FS

// luaText returns the text of a file in lua/.
func luaText(name string) string {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the files are part of the program
	}
	return string(b)
}

// The scripts of a Store. Each file documents its arguments and its answer.
var (
	registerScript  = newStoreScript("register")
	lookScript      = newStoreScript("look")
	raiseScript     = newStoreScript("raise")
	othersScript    = newStoreScript("others")
	releaseScript   = newStoreScript("release")
	marksScript     = newStoreScript("marks")
	adoptScript     = newStoreScript("adopt")
	endingScript    = newStoreScript("ending")
	installScript   = newStoreScript("install")
	probeScript     = newStoreScript("probe")
	authorizeScript = newStoreScript("authorize")
	recordedScript  = newStoreScript("recorded")
	leftScript      = newStoreScript("left")
	leaveScript     = newStoreScript("leave")
	uninstallScript = newStoreScript("uninstall")
)

// The keys of the scripts; the package documentation says what each holds.
const (
	markerKey   = "ringfence"
	auditKey    = "ringfence:.audit"
	probeKey    = "ringfence:.probe"
	originalKey = "ringfence:.original"
	allowedKey  = "ringfence:.allowed"
	leftKey     = "ringfence:.left"
)

// key returns the key with the mark and the sessions of a resource.
func key(r fence.Resource) string { return markerKey + ":" + string(r) }

// storeScript is a script that also works when Redis is out of memory. A new leader must be
// admitted then too, and the older one ended, because it can still delete.
type storeScript struct {
	flagged *driver.Script // for Redis 7 and later, which allow this by a flag
	// plain is for Redis 6.2, which does not know the flag. It rejects commands that may take memory
	// only until the script has written, so this script begins with a DEL, which takes none.
	plain *driver.Script
}

// newStoreScript makes a script of a file in lua/ and the code that all scripts share.
func newStoreScript(name string) storeScript {
	common, text := luaText("common"), luaText(name)
	return storeScript{
		flagged: driver.NewScript("#!lua flags=allow-oom\n" + common + text),
		plain:   driver.NewScript(common + "redis.call('DEL', '" + probeKey + "')\n" + text),
	}
}

// eval evaluates the flagged script, or the plain one if the server does not know the flag.
func (s storeScript) eval(
	ctx context.Context, db *driver.Client, keys []string, args []any,
) *driver.Cmd {
	cmd := s.flagged.Run(ctx, db, keys, args...)
	if isUnknownFlag(cmd.Err()) {
		return s.plain.Run(ctx, db, keys, args...)
	}
	return cmd
}

// isUnknownFlag reports whether the server took the line with the flag for Lua.
func isUnknownFlag(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unexpected symbol near '#'")
}

// eval evaluates a script, whose first key is the marker. While another script blocks the server it
// waits, until ctx ends.
func (s *Store) eval(
	ctx context.Context, script storeScript, keys []string, args ...any,
) (reply, error) {
	keys = append([]string{markerKey}, keys...)
	var fields []any
	err := retry(ctx, func() (err error) {
		fields, err = script.eval(ctx, s.db, keys, args).Slice()
		return err
	})
	if err != nil {
		return nil, Explain(err)
	}
	return newReply(fields)
}

// decide evaluates a script that decides on claims.
func (s *Store) decide(
	ctx context.Context, script storeScript, keys []string, args ...any,
) (decision, error) {
	r, err := s.eval(ctx, script, keys, args...)
	if err != nil {
		return decision{}, err
	}
	return r.decision()
}
