package guard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// The rows that the status page shows of a guard's stores, sent as JSON. The command guard status
// asks no guard: it reads marks from the stores.

// Location is the store of a row.
type Location struct {
	Store    string `json:"store"`    // the server, such as postgres/archive
	Database string `json:"database"` // "" where the server has only one
}

// MarkRow is a mark in a store.
type MarkRow struct {
	Location
	marks.Mark
}

// SessionRow is a session of this guard, under one of its claims.
type SessionRow struct {
	Location
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"`
	Holder   string         `json:"holder"`
	Since    time.Time      `json:"since"`
}

// RefusalRow is the refusals of one client by this guard, under one token and for one reason.
type RefusalRow struct {
	Location                // the database as the client named it
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"` // 0: none was claimed
	Holder   string         `json:"holder"`
	Client   marks.Client   `json:"-"`       // not for everybody who may open the page
	Mark     fence.Token    `json:"mark"`    // 0: not known
	Reason   string         `json:"reason"`  // in one word; "error" if the error is no refusal
	Message  string         `json:"message"` // what the client was told; "" if the error is no refusal
	At       time.Time      `json:"at"`      // when the last one was
	Count    int            `json:"count"`
}

// Source is an open store, from which rows are made.
type Source struct {
	Location
	Marks    func(context.Context) ([]marks.Mark, error) // reads all; its error has no secrets
	Note     func(context.Context) (string, error)       // what is unusual about the store; may be nil
	Sessions func() []marks.OpenSession                  // of this guard
	Refusals func() []RefusalRow                         // by this guard; may be nil
}

// SessionsIn returns the rows of sessions in a store.
func SessionsIn(p Location, open []marks.OpenSession) (rows []SessionRow) {
	for _, s := range open {
		rows = append(rows, SessionRow{p, s.Claim.Resource, s.Claim.Token, s.Claim.Holder, s.Since})
	}
	return rows
}
