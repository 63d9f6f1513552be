package coordinators_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/coordinators"
)

func TestAnUnknownSchemeIsAnsweredWithTheKnownOnes(t *testing.T) {
	c, err := coordinators.All.Open(t.Context(), "nosuch://u:s3cr3t@h", coordinators.Options{})
	if c != nil || err == nil || !strings.Contains(err.Error(), "there is no coordinator nosuch://; "+
		"there is "+coordinators.All.Schemes()[0]+"://, ") {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestErrorsContainNoSecret(t *testing.T) {
	table := coordinators.Table{"mem": func(
		_ context.Context, url string, _ coordinators.Options,
	) (documents.Coordinator, error) {
		return nil, errors.New("cannot parse " + url + ", not with password s3cr3t")
	}}
	_, err := table.Open(t.Context(), "mem://u:s3cr3t@h", coordinators.Options{})
	if err == nil || strings.Contains(err.Error(), "s3cr3t") ||
		!strings.Contains(err.Error(), "mem://u:xxxxx@h") {
		t.Errorf("got %v", err)
	}
}

func TestAFailedOpenReturnsNil(t *testing.T) {
	c, err := coordinators.All.Open(t.Context(), "zk://u:p/x@h", coordinators.Options{})
	if c != nil || err == nil {
		t.Errorf("got %v, %v", c, err)
	}
}
