package lab

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// OpenCoordinator opens the coordinator at a URL, as guards and leaders do.
func OpenCoordinator(
	ctx context.Context, url string, o coordinators.Options,
) (fence.Coordinator, error) {
	return coordinators.All.Open(ctx, settings.URL(url), o)
}
