package election

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// Open connects to the ensemble in the URL, makes sure that it has an issuer, and logs a warning if
// others can change elections. It fails if no server answers in time, or if the ensemble refuses
// the credentials.
func Open(ctx context.Context, url string, o ensemble.Options) (*ensemble.Client, error) {
	c, err := ensemble.New(url, o)
	if err != nil {
		return nil, err
	}
	if _, err := Issuer(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	warnOfAccess(ctx, c)
	return c, nil
}

// Issuer reads the ensemble's identity.
func Issuer(ctx context.Context, c *ensemble.Client) (fence.Issuer, error) {
	return ensemble.Ask(ctx, c, ReadIssuer)
}
