package page

import (
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// sessionsShown is how many sessions the page shows: those that were admitted last.
const sessionsShown = 100

// Session is a session of this guard. One with several claims is several of these.
type Session struct {
	Store    string         `json:"store"`
	Database string         `json:"database"`
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"`
	Client   string         `json:"client"`
	Since    time.Time      `json:"since"`
}

// sessionsNow returns how many sessions a store has, and the latest.
func (s *store) sessionsNow() (count int, shown []Session) {
	all := s.Sessions()
	count = len(all)
	all = latest(all, sessionsShown, func(o marks.OpenSession) time.Time { return o.Since },
		func(o marks.OpenSession) string { return o.Client.Address })
	for _, o := range all {
		shown = append(shown, Session{
			s.Name, s.Database, o.Claim.Resource, o.Claim.Token, short(o.Claim.Holder), o.Since,
		})
	}
	return count, shown
}
