package redismarks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/keepalive"
)

// Uninstall removes Ringfence from the server at url: marker, marks and every other key under
// ringfence, in all databases, and the library of functions. The user of the URL needs more than a
// guard: SCAN, and FUNCTION LIST and DELETE.
//
// It drops nothing while a recorded session lives or a guard is connected. One script looks at the
// records and deletes marker and marks, so nobody is admitted in between; it is given the sessions
// that have ended. If the registry is lost, as after a restart, every client connection is ended
// first. After an error some keys may be gone; whoever needs them is refused, and a repetition
// removes the rest.
//
// What is dropped forgets the highest tokens that were accepted, as pgmarks.Uninstall says.
func Uninstall(ctx context.Context, url string, o marks.Removing) (r marks.Removal, err error) {
	s, err := Open(ctx, url, Options{Connections: 1})
	if err != nil {
		return r, err
	}
	defer s.Close()
	f, err := s.find(ctx, url)
	if err != nil {
		return r, fmt.Errorf("nothing was changed: %w", forAdministrators(err))
	}
	if r = f.removal(o); r.Nothing() || len(r.Blocked) > 0 || !o.Drop {
		return r, nil
	}
	if len(f.keys[0]) > 0 {
		if err := s.drop(ctx); err != nil {
			return r, fmt.Errorf("nothing was changed: %w", err)
		}
	}
	return r, s.dropRest(ctx, url, f)
}

// forAdministrators says who may do what a guard's user may not.
func forAdministrators(err error) error {
	if denied(err) {
		return fmt.Errorf("%w (set GUARD_REDIS_UPSTREAM to the URL of an administrator for this command)",
			err)
	}
	return err
}

// findings are what a server has of Ringfence.
type findings struct {
	keys     map[int][]string // by database
	library  bool
	lost     bool     // the registry is
	sessions []string // recorded, and alive; one text each
	guards   []string // addresses
}

// find looks at a server.
func (s *Store) find(ctx context.Context, url string) (f findings, err error) {
	if f.keys, err = ownKeys(ctx, url); err != nil {
		return f, err
	}
	library, err := s.db.Do(ctx, "FUNCTION", "LIST", "LIBRARYNAME", "ringfence").Slice()
	if err != nil && !isUnknown(err) {
		return f, err
	}
	f.library = len(library) > 0
	clients, err := s.otherClients(ctx)
	if err != nil {
		return f, err
	}
	for _, line := range clients {
		if fieldOf(line, "name") == controlName {
			f.guards = append(f.guards, fieldOf(line, "addr"))
		}
	}
	slices.Sort(f.guards)
	lost, _, alive, _, err := s.remains(ctx)
	for _, id := range alive {
		f.sessions = append(f.sessions, fmt.Sprintf("client %s of user %s from %s", id,
			fieldOf(clients[id], "user"), fieldOf(clients[id], "addr")))
	}
	f.lost = lost && len(f.keys[0]) > 0
	return f, err
}

// keyspace matches the databases that have keys, in INFO.
var keyspace = regexp.MustCompile(`(?m)^db(\d+):keys=`)

// ownKeys returns the keys of Ringfence in each database. Outside of database 0 they are what
// SWAPDB or a copy has left.
func ownKeys(ctx context.Context, url string) (map[int][]string, error) {
	all := map[int][]string{}
	err := inDatabase(url, 0, func(db *driver.Client) error {
		info, err := db.Info(ctx, "keyspace").Result()
		for _, m := range keyspace.FindAllStringSubmatch(info, -1) {
			n, _ := strconv.Atoi(m[1])
			all[n] = nil
		}
		return err
	})
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if err == nil {
			err = inDatabase(url, n, func(db *driver.Client) error {
				it := db.Scan(ctx, 0, markerKey+"*", 1000).Iterator()
				for it.Next(ctx) {
					if k := it.Val(); k == markerKey || strings.HasPrefix(k, markerKey+":") {
						all[n] = append(all[n], k)
					}
				}
				return it.Err()
			})
		}
	}
	return all, err
}

// inDatabase calls do with a client of one database.
func inDatabase(url string, n int, do func(*driver.Client) error) error {
	t, err := own(url, "ringfence-uninstall")
	if err != nil {
		return err
	}
	t.opt.DB, t.opt.PoolSize = n, 1
	t.logIn()
	t.dialWith(keepalive.Timeouts{})
	db := driver.NewClient(t.opt)
	defer db.Close()
	return do(db)
}

// otherClients returns the lines of CLIENT LIST, without the store's own.
func (s *Store) otherClients(ctx context.Context) (map[string]string, error) {
	var all map[string]string
	err := retry(ctx, func() error {
		p := s.db.Pipeline()
		own, list := p.ClientID(ctx), p.ClientList(ctx)
		_, err := p.Exec(ctx)
		all = byID(list.Val())
		delete(all, strconv.FormatInt(own.Val(), 10))
		return err
	})
	return all, err
}

// remains says whether the registry is lost, which run answers, and which recorded sessions live
// and which have ended.
func (s *Store) remains(
	ctx context.Context,
) (lost bool, run string, alive []string, gone []any, err error) {
	r, err := s.eval(ctx, uninstallScript, nil, "look", "", "")
	if err != nil {
		return false, "", nil, nil, err
	}
	if r.verdict() != "remains" || len(r) < 3 {
		return false, "", nil, nil, refuse(r.verdict(), fence.Claim{}, marks.Mark{})
	}
	clients, err := s.otherClients(ctx)
	for _, id := range r[3:] {
		if _, lives := clients[text(id)]; lives {
			alive = append(alive, text(id))
		} else {
			gone = append(gone, id)
		}
	}
	return flag(r[1]), text(r[2]), alive, gone, err
}

// removal says what there is, and what relies on it.
func (f findings) removal(o marks.Removing) (r marks.Removal) {
	numbers, checkpoints := 0, 0
	for _, n := range slices.Sorted(maps.Keys(f.keys)) {
		for _, k := range f.keys[n] {
			_, wrong := fence.ParseResource(strings.TrimPrefix(k, markerKey+":"))
			switch {
			case strings.HasPrefix(k, checkpointKey+":"):
				checkpoints++
			case n > 0:
				r.Drops = append(r.Drops, fmt.Sprintf("key %s in database %d, which counts for nothing", k, n))
			case k == markerKey || slices.Contains([]string{auditKey, probeKey, originalKey, allowedKey,
				leftKey, checkpointKey + "s"}, k):
			case wrong == nil:
				numbers++
			default:
				r.Drops = append(r.Drops, fmt.Sprintf("key %s, which this version does not use", k))
			}
		}
	}
	if len(f.keys[0]) > 0 {
		r.Drops = slices.Insert(r.Drops, 0, fmt.Sprintf("key %s and its like: marks: %d, and the rules "+
			"of who may claim what", markerKey, numbers))
	}
	if f.library {
		r.Drops = append(r.Drops, "the library ringfence of functions")
	}
	if f.lost {
		r.Drops = append(r.Drops, "every client connection: Redis was restarted or has lost data, so "+
			"nobody knows whose session is open; clients connect again")
	}
	if checkpoints > 0 {
		r.Data = append(r.Data,
			fmt.Sprintf("%d checkpoints of tasks (keys %s:…)", checkpoints, checkpointKey))
	}
	for _, from := range f.guards {
		r.Blocked = append(r.Blocked, fmt.Sprintf("a guard is connected from %s: stop it", from))
	}
	for _, who := range f.sessions {
		r.Blocked = append(r.Blocked, "a session is open: "+who+": end it")
	}
	if !r.Nothing() {
		r.Stays = append(r.Stays, "users and their rules (ACL LIST)")
	}
	r.Settle(o)
	return r
}

// checkpointKey begins the keys of package checkpoint/redisjournal.
const checkpointKey = markerKey + ":.checkpoint"

// errOpened: a session was admitted after the look.
var errOpened = errors.New("a session was admitted just now: end it")

// drop removes marker and marks.
func (s *Store) drop(ctx context.Context) error {
	var proof endProof
	for wait := firstPause; ; wait = nextPause(wait) {
		_, run, alive, gone, err := s.remains(ctx)
		switch {
		case err != nil:
			return err
		case len(alive) > 0:
			return errOpened
		}
		r, err := s.eval(ctx, uninstallScript, nil, append([]any{"drop", proof.nonce, run}, gone...)...)
		if err != nil || r.verdict() == "dropped" {
			return err
		}
		if len(r) > 1 && flag(r[1]) {
			if proof, _, err = s.announce(ctx, ""); err == nil {
				err = s.endAll(ctx, proof, marks.SessionID{})
			}
		}
		if err == nil {
			err = pause(ctx, wait)
		}
		if err != nil {
			return err
		}
	}
}

// dropRest deletes the keys that no admission needs, and the functions.
func (s *Store) dropRest(ctx context.Context, url string, f findings) error {
	for n, keys := range f.keys {
		err := inDatabase(url, n, func(db *driver.Client) error {
			for some := range slices.Chunk(keys, 1000) {
				if err := db.Del(ctx, some...).Err(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("some keys are left, run it again: %w", Explain(err))
		}
	}
	if !f.library {
		return nil
	}
	if err := s.db.Do(ctx, "FUNCTION", "DELETE", "ringfence").Err(); err != nil {
		return fmt.Errorf("the keys are gone, the functions are left: %w", forAdministrators(err))
	}
	return nil
}
