package redisstore

import (
	"context"
	"slices"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

// Lead works on one Redis as the leader of a resource, through the guard at url. For each term it
// raises the mark, makes a client whose connections carry the term's token and end with it, calls
// work, and closes the client. The context of work ends with the term. ParseURL says what url may
// have.
//
// Lead stands for election until work is done, as Lead.Repeat of package fence does, and returns
// the same errors. l.Stores are further stores. At a Redis without a guard it returns a
// *fence.SetupError.
func Lead(
	ctx context.Context, l fence.Lead, url string,
	work func(ctx context.Context, db *driver.Client) error,
) error {
	options, err := ParseURL(url)
	if err != nil {
		return err
	}
	raiser := NewRaiser(url, nil)
	defer raiser.Close()
	l.Stores = append(slices.Clone(l.Stores), raiser)
	return l.Repeat(ctx, func(ctx context.Context, term *fence.Term) error {
		db := NewClient(term, options)
		defer db.Close()
		return work(ctx, db)
	})
}
