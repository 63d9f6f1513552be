package guard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// The rows that a guard shows of its stores. The status page sends them as JSON, and the console makes a row of
// each (postgres/tables.go). What is not for everybody who may open the page has no name in JSON. The command guard status asks no guard: it reads marks from the stores.

// Location is the store of a row.
type Location struct {
	Store    string `json:"store"`    // the server, such as postgres/archive
	Database string `json:"database"` // "" where the server has only one
}

// Mark is a mark in a store.
type Mark struct {
	Location
	marks.Mark
}

// Session is a session of this guard, under one of its claims.
type Session struct {
	Location
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"`
	Holder   string         `json:"holder"`
	ID       int64          `json:"-"` // as the database has it
	Client   marks.Client   `json:"-"`
	Since    time.Time      `json:"since"`
	State    string         `json:"-"` // in the words of the database; "" if the guard does not know
}

// Refusal is the refusals of one client by this guard, under one token and for one reason.
type Refusal struct {
	Location                // the database as the client named it
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"` // 0: none was claimed
	Holder   string         `json:"holder"`
	Client   marks.Client   `json:"-"`
	Mark     fence.Token    `json:"mark"`    // 0: not known
	Reason   string         `json:"reason"`  // in one word; "error" if the error is no refusal
	Message  string         `json:"message"` // what the client was told; "" if the error is no refusal
	At       time.Time      `json:"at"`      // when the last one was
	Count    int            `json:"count"`
}

// Election is who leads a resource, as the coordinator says. Without a leader the token is 0.
type Election struct {
	Resource fence.Resource
	Token    fence.Token
	Holder   string
	Issuer   fence.Issuer
}

// Source is an open store, from which rows are made.
type Source struct {
	Location
	Marks    func(context.Context) ([]marks.Mark, error) // reads all; its error has no secrets
	Sessions func() []marks.OpenSession                  // of this guard
	Refusals func() []Refusal                            // by this guard; may be nil
}

// SessionsIn returns the rows of sessions in a store.
func SessionsIn(p Location, open []marks.OpenSession) (rows []Session) {
	for _, s := range open {
		state := ""
		if relayed, ok := s.Relayed.(interface{ State() string }); ok {
			state = relayed.State()
		}
		rows = append(rows, Session{
			Location: p, Resource: s.Claim.Resource, Token: s.Claim.Token, Holder: s.Claim.Holder,
			ID: s.Session.ID, Client: s.Client, Since: s.Since, State: state,
		})
	}
	return rows
}
