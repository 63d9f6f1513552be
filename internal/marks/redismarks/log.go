package redismarks

import (
	"context"
	"fmt"
	"log/slog"

	driver "github.com/redis/go-redis/v9"
)

// LogTo sends the driver's own log messages to log at debug level, for the whole process. Without
// it the driver writes them to stderr. Everything in them that matters comes back as an error too.
// Only programs should call it, because they own their stderr.
func LogTo(log *slog.Logger) { driver.SetLogger(debugLogger{log}) }

type debugLogger struct{ log *slog.Logger }

// Printf implements the driver's logger.
func (q debugLogger) Printf(ctx context.Context, format string, args ...any) {
	q.log.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
