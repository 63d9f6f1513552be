package redismarks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

var _ marks.Authorizer = (*Store)(nil)

// Authorization implements marks.Authorizer.
func (s *Store) Authorization(ctx context.Context) (marks.Authorization, error) {
	all, _, err := s.authorize(ctx, "read", "")
	if err == nil {
		all.Strangers, err = s.strangers(ctx, all.Allowed)
	}
	return all, err
}

// Allow implements marks.Authorizer. Redis does not say which users there are, so any name is
// taken.
func (s *Store) Allow(ctx context.Context, user string, patterns ...marks.Pattern) error {
	if user == "" || strings.ContainsAny(user, " \t\r\n\x00") {
		return fmt.Errorf("%q cannot be a user of Redis", user)
	}
	_, _, err := s.authorize(ctx, "allow", user, patterns...)
	return err
}

// Forbid implements marks.Authorizer.
func (s *Store) Forbid(ctx context.Context, user string, patterns ...marks.Pattern) (int, error) {
	_, removed, err := s.authorize(ctx, "forbid", user, patterns...)
	return removed, err
}

// Authorize implements marks.Authorizer.
func (s *Store) Authorize(ctx context.Context, on bool) error {
	what := "off"
	if on {
		what = "on"
	}
	_, _, err := s.authorize(ctx, what, "")
	return err
}

func (s *Store) authorize(
	ctx context.Context, what, user string, patterns ...marks.Pattern,
) (all marks.Authorization, removed int, err error) {
	args := []any{what, user}
	for _, p := range patterns {
		args = append(args, string(p))
	}
	r, err := s.eval(ctx, authorizeScript, nil, args...)
	if err != nil {
		return all, 0, err
	}
	if r.verdict() != "authorization" || len(r) < 3 {
		return all, 0, refuse(r.verdict(), fence.Claim{}, marks.Mark{})
	}
	all.On, all.Allowed = flag(r[1]), []marks.Allowed{}
	if removed, err = strconv.Atoi(text(r[2])); err != nil {
		return all, 0, err
	}
	for rows := r[3:]; len(rows) >= 2; rows = rows[2:] {
		user, pattern, _ := strings.Cut(text(rows[0]), " ")
		row := marks.Allowed{Role: user, Pattern: marks.Pattern(pattern)}
		if !flag(rows[1]) {
			row.Why = "it was allowed before Redis lost its marker, or elsewhere"
		}
		all.Allowed = append(all.Allowed, row)
	}
	slices.SortFunc(all.Allowed, func(a, b marks.Allowed) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Pattern, b.Pattern))
	})
	return all, removed, nil
}

// strangers lists the recorded sessions whose users may not claim their resources.
func (s *Store) strangers(ctx context.Context, allowed []marks.Allowed) ([]marks.Stranger, error) {
	r, err := s.eval(ctx, recordedScript, nil)
	if err != nil || len(r) < 2 {
		return nil, err
	}
	clients, err := s.clients(ctx)
	if err != nil {
		return nil, err
	}
	found := []marks.Stranger{}
	for rows := r[2:]; len(rows) >= 2; rows = rows[2:] {
		line, ok := clients[text(rows[1])]
		resource, user := fence.Resource(text(rows[0])), fieldOf(line, "user")
		may := func(a marks.Allowed) bool {
			return a.Role == user && a.Why == "" && a.Pattern.Fits(resource)
		}
		if !ok || slices.ContainsFunc(allowed, may) {
			continue
		}
		id, err := strconv.ParseInt(text(rows[1]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the id of a recorded session: %w", err)
		}
		found = append(found, marks.Stranger{Resource: resource, Role: user, ID: id, Client: whoOf(line)})
	}
	slices.SortFunc(found, func(a, b marks.Stranger) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Role, b.Role),
			cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// clients returns the lines of CLIENT LIST by client id.
func (s *Store) clients(ctx context.Context) (map[string]string, error) {
	var list string
	err := retry(ctx, func() (err error) {
		list, err = s.db.ClientList(ctx).Result()
		return err
	})
	if err != nil {
		return nil, Explain(err)
	}
	return byID(list), nil
}

// whoOf describes a client by its address and name.
func whoOf(line string) string {
	if name := fieldOf(line, "name"); name != "" {
		return fieldOf(line, "addr") + ", " + name
	}
	return fieldOf(line, "addr")
}
