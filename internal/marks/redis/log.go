package redis

import (
	"context"
	"fmt"
	"log/slog"

	driver "github.com/redis/go-redis/v9"
)

// LogTo sends what the driver has to say, for the whole process, to log at debug level; by itself it writes to stderr.
// Whatever matters of it comes back as an error too. It is for programs, which own their stderr.
func LogTo(log *slog.Logger) { driver.SetLogger(quiet{log}) }

type quiet struct{ log *slog.Logger }

// Printf implements the driver's logger.
func (q quiet) Printf(ctx context.Context, format string, args ...any) {
	q.log.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
