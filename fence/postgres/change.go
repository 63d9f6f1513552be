package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Change implements documents.Store. It is one transaction, which keeps the candidates' rows from
// being deleted until it has committed.
func (s *store) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	if err := campaign.CheckChange(c, maxData); err != nil {
		return nil, err
	}
	if len(c.While) == 0 && len(c.Writes) == 0 {
		return []int64{}, nil
	}
	answer, err := s.send(ctx, arguments(c))
	if err == nil && answer.outcome == "done" || errors.Is(err, documents.ErrUnknown) {
		s.c.teller.tell(about(c.Writes)...)
	}
	switch {
	case err != nil:
		return nil, err
	case answer.outcome != "done":
		return nil, refuse(c.While[answer.place-1], answer.standing)
	}
	return answer.versions, nil
}

// claimed are the arguments of the functions that look whether claims lead.
func claimed(claims []fence.Claim) []any {
	resources, tokens, candidates, issuers := []string{}, []int64{}, []string{}, []string{}
	for _, claim := range claims {
		resources = append(resources, string(claim.Resource))
		tokens = append(tokens, int64(claim.Token))
		candidates = append(candidates, claim.Candidate)
		issuers = append(issuers, string(claim.Issuer))
	}
	return []any{resources, tokens, candidates, issuers}
}

// arguments are those of change_documents.
func arguments(c documents.Change) []any {
	paths, versions, kinds, data := []string{}, []int64{}, []int32{}, [][]byte{}
	for _, w := range c.Writes {
		paths, versions = append(paths, w.Path), append(versions, w.Version)
		kinds, data = append(kinds, int32(w.Kind)), append(data, append([]byte{}, w.Data...))
	}
	folders, names := split(paths)
	return append(claimed(c.While), folders, names, versions, kinds, data)
}

// standing says whether claims lead, or which one does not and who leads instead.
type standing struct {
	outcome string // "done" if they lead
	place   int    // of the one that does not, from 1
	leader  *int64
	holder  *string
}

// changed is what change_documents returns.
type changed struct {
	standing
	versions []int64
}

// send sends a change until the server has certainly received it, and not again. If it returns an
// error that is not ErrUnknown, nothing has changed.
func (s *store) send(ctx context.Context, args []any) (changed, error) {
	c := s.c
	return askOn(ctx, c, c.calls, "change documents", c.frame.RequestTimeout(), func(
		ctx context.Context, conn *pgx.Conn,
	) (a changed, err error) {
		into := []any{&a.outcome, &a.place, &a.leader, &a.holder, &a.versions}
		err = unheld(ctx, conn, args[0].([]string), func() error {
			return row(ctx, conn, into, "change_documents($1, $2, $3, $4, $5, $6, $7, $8, $9)", args...)
		})
		pg, answered := errors.AsType[*pgconn.PgError](err)
		if answered && pg.Code == "RFE04" {
			return a, fmt.Errorf("%w: %s; nothing has changed", documents.ErrConflict, pg.Message)
		}
		return a, unanswered(err)
	})
}

// unanswered marks an error after which the change may have been made: without an answer, or with
// one that may follow the commit, such as that of a pooler which has lost the server.
func unanswered(err error) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if err == nil || answered && pgcause.UndoneAlone(pg) || pgconn.SafeToRetry(err) {
		return err
	}
	return fmt.Errorf("%w: %w", documents.ErrUnknown, err)
}

// refuse says why a claim does not lead.
func refuse(c fence.Claim, a standing) error {
	var leader elector.Candidate
	if a.leader != nil && a.holder != nil {
		leader = elector.Candidate{Token: fence.Token(*a.leader), Holder: *a.holder}
	}
	switch a.outcome {
	case "gone":
		return refusal.Gone(c, leader)
	case "other issuer":
		return refusal.OtherCoordinator(c, "Postgres", "")
	}
	return refusal.NotFirst(c, leader, "")
}
