package page

import (
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

const (
	sessionsMost  = 1000 // sessions that are kept; the others are only counted
	sessionsShown = 100  // the latest of those that are kept
)

// Session is a session of this guard. One with several claims is several of these.
type Session struct {
	Store    string         `json:"store"`
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"`
	Client   string         `json:"client"`
	Since    time.Time      `json:"since"`
}

// sessions holds the sessions of this guard.
type sessions struct {
	count int
	kept  map[sessionKey]Session
}

type sessionKey struct {
	store    string
	resource fence.Resource
	session  marks.Session
}

func (s *sessions) open(store string, e marks.Event, at time.Time) {
	s.count++
	if len(s.kept) >= sessionsMost {
		return
	}
	if s.kept == nil {
		s.kept = make(map[sessionKey]Session)
	}
	s.kept[sessionKey{store, e.Claim.Resource, e.Session}] = Session{
		Store: store, Resource: e.Claim.Resource, Token: e.Claim.Token,
		Client: short(e.Claim.Holder), Since: at,
	}
}

func (s *sessions) close(store string, e marks.Event) {
	s.count--
	delete(s.kept, sessionKey{store, e.Claim.Resource, e.Session})
}
