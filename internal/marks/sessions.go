package marks

import (
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Relayed is a session whose bytes this process relays.
type Relayed interface {
	// Quiet has the relay pass on nothing more of the client, provided that the session seems to be at
	// rest. Then it sends the server a statement of its own, and returns that. It returns false if
	// the session is not at rest. What the session has not committed is rolled back when it ends.
	Quiet() (Proof, bool)
	// End ends the session without waiting for it. It may be called twice.
	End()
}

// Proof is a statement with a random name, which a guard sends after it has stopped passing on what
// the client sends. The server reads a connection in order. So once it shows that the session has
// run this statement and is idle, nothing of the client is left to be read, whatever the client has
// done to the guard's count of answers.
type Proof struct {
	Statement string
	Answered  <-chan struct{} // closed when the server has answered something since; only a hint
}

// OpenSession is an admitted session of this process, under one of its claims.
type OpenSession struct {
	Relayed // nil if this process cannot end it, as in Redis
	Claim   Presented
	Session SessionID
	Client  Client
	Since   time.Time // when it was admitted
}

// openSessions holds the sessions that this process has admitted and not released yet.
type openSessions struct {
	mu  sync.Mutex
	all map[fence.Resource]map[SessionID]*entry
}

type entry struct {
	relayed  Relayed
	departed Departed
	claim    Presented
	client   *Client
	since    time.Time
	ending   bool // it is quiet, and whoever found it so ends it
	letGo    bool // its record is closed, although it may live
	proof    Proof
}

// add remembers an admitted session until remove.
func (all *openSessions) add(s SessionID, claims []Presented, client *Client) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = make(map[fence.Resource]map[SessionID]*entry)
	}
	d := departed(s, claims)
	now := time.Now()
	for _, c := range claims {
		if all.all[c.Resource] == nil {
			all.all[c.Resource] = make(map[SessionID]*entry)
		}
		all.all[c.Resource][s] = &entry{departed: d, claim: c, client: client, since: now}
	}
}

// relay records who can end a session.
func (all *openSessions) relay(s SessionID, claims []Presented, by Relayed) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range claims {
		if open := all.all[c.Resource][s]; open != nil {
			open.relayed = by
		}
	}
}

// remove reports whether the session was there, and whether it was let go.
func (all *openSessions) remove(d Departed) (there, letGo bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, r := range d.Resources {
		open := all.all[r][d.Session]
		there, letGo = there || open != nil, letGo || open != nil && open.letGo
		delete(all.all[r], d.Session)
		if len(all.all[r]) == 0 {
			delete(all.all, r)
		}
	}
	return there, letGo
}

// relaysAny reports whether there is a session of the resource that can be ended here.
func (all *openSessions) relaysAny(r fence.Resource) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, open := range all.all[r] {
		if open.relayed != nil && !open.ending {
			return true
		}
	}
	return false
}

// quiet makes those sessions quiet that seem to be at rest and are under an older token than the
// claim's, and returns them.
func (all *openSessions) quiet(c fence.Claim) []*entry {
	older := all.older(c)
	var asked sync.WaitGroup
	quiet := make([]bool, len(older))
	for i, s := range older {
		asked.Go(func() { s.proof, quiet[i] = s.relayed.Quiet() }) // a server may be slow to read
	}
	asked.Wait()

	all.mu.Lock()
	defer all.mu.Unlock()
	var found []*entry
	for i, s := range older {
		if s.ending = quiet[i]; s.ending {
			found = append(found, s)
		}
	}
	return found
}

// older returns the sessions under an older token than the claim's that nobody is ending, and marks
// them as ending.
func (all *openSessions) older(c fence.Claim) (older []*entry) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, open := range all.all[c.Resource] {
		if open.relayed != nil && !open.ending && open.claim.Token.Compare(c.Token) < 0 {
			open.ending = true
			older = append(older, open)
		}
	}
	return older
}

// letGo marks those of the quiet sessions that the store has let go, and tells them from the rest.
func (all *openSessions) letGo(quiet []*entry, leaving []SessionID) (letGo, rest []*entry) {
	found := make(map[SessionID]bool)
	for _, s := range leaving {
		found[s] = true
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range quiet {
		if s.letGo = found[s.departed.Session]; s.letGo {
			letGo = append(letGo, s)
		} else {
			rest = append(rest, s)
		}
	}
	return letGo, rest
}

func (all *openSessions) list() (list []OpenSession) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, of := range all.all {
		for id, s := range of {
			list = append(list, OpenSession{s.relayed, s.claim, id, *s.client, s.since})
		}
	}
	return list
}
