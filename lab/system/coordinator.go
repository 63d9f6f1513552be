package system

import (
	"context"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// OpenCoordinator opens the coordinator at a URL, as guards and leaders do.
func OpenCoordinator(
	ctx context.Context, url string, o coordinators.Options,
) (documents.Coordinator, error) {
	return coordinators.All.Open(ctx, settings.URL(url), o)
}
