package taskfile

import (
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/settings"
)

// Journal is where checkpoints are kept: the URL of a store, or InCoordinator. Its Scheme is that of
// the URL, or the word.
type Journal struct{ settings.URL }

// InCoordinator keeps checkpoints next to the elections.
const InCoordinator = "coordinator"

// UnmarshalText accepts scheme://rest and InCoordinator. Its error does not quote the text.
func (j *Journal) UnmarshalText(text []byte) error {
	if strings.TrimSpace(string(text)) == InCoordinator {
		j.URL = InCoordinator
		return nil
	}
	if err := j.URL.UnmarshalText(text); err != nil {
		return fmt.Errorf("neither the word %s nor a URL: %w", InCoordinator, err)
	}
	return nil
}
