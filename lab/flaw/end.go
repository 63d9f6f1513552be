package flaw

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/marks"
)

const (
	endTime  = 10 * time.Second
	lookEach = 5 * time.Millisecond
)

// EndPostgres ends backends, over a new connection each time.
func EndPostgres(url string) End {
	return func(ctx context.Context, all []marks.SessionID) error {
		ctx, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer c.Close(context.WithoutCancel(ctx))
		for _, s := range all {
			if _, err := c.Exec(ctx, `select pg_terminate_backend($1)`, s.ID); err != nil {
				return fmt.Errorf("end backend %d: %w", s.ID, err)
			}
			err := gone(ctx, func() (left bool, err error) {
				err = c.QueryRow(ctx,
					`select exists (select from pg_stat_activity where pid = $1)`, s.ID).Scan(&left)
				return left, err
			})
			if err != nil {
				return fmt.Errorf("backend %d does not end: %w", s.ID, err)
			}
		}
		return nil
	}
}

// EndRedis ends clients, over a new connection each time.
func EndRedis(url string) (End, error) {
	o, err := driver.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("not a Redis URL: %w", err)
	}
	return func(ctx context.Context, all []marks.SessionID) error {
		ctx, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		db := driver.NewClient(o)
		defer db.Close()
		for _, s := range all {
			if err := db.Do(ctx, "CLIENT", "KILL", "ID", s.ID).Err(); err != nil {
				return fmt.Errorf("end client %d: %w", s.ID, err)
			}
			err := gone(ctx, func() (bool, error) {
				list, err := db.Do(ctx, "CLIENT", "LIST", "ID", s.ID).Text()
				return strings.TrimSpace(list) != "", err
			})
			if err != nil {
				return fmt.Errorf("client %d does not end: %w", s.ID, err)
			}
		}
		return nil
	}, nil
}

// gone polls until nothing is left.
func gone(ctx context.Context, look func() (left bool, err error)) error {
	for {
		left, err := look()
		if err != nil || !left {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEach):
		}
	}
}
