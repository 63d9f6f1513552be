package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// errNotIssuer: the issuer's znode was not written by us.
var errNotIssuer = errors.New("not an issuer")

const uuidLength = 36

// issuer reads the ensemble's identity, and makes it where there is none: of several that try, the first wins. It is
// read each time it is asked for: a wiped ensemble counts from the start again and so is another issuer.
func (s *session) issuer(ctx context.Context) (fence.Issuer, error) {
	n, err := s.issuerNode(ctx, s.get)
	if err != nil {
		return "", err
	}
	return parseIssuer(s.c.issuerPath(), n.data)
}

// identity is the issuer as it was read, with what tells whether it still is: the version, which grows
// when the issuer is renewed, and a watch, for a znode that is made anew begins at version 0 again.
type identity struct {
	issuer  fence.Issuer
	version int32
	watch   <-chan zk.Event
}

// identity is issuer for those who remember it.
func (s *session) identity(ctx context.Context) (identity, error) {
	var watch <-chan zk.Event
	n, err := s.issuerNode(ctx, func(ctx context.Context, at string) (n node, err error) {
		n, watch, err = s.watchData(ctx, at)
		return n, err
	})
	if err != nil {
		return identity{}, err
	}
	issuer, err := parseIssuer(s.c.issuerPath(), n.data)
	if err != nil {
		return identity{}, err
	}
	return identity{issuer, n.stat.Version, watch}, nil
}

// changed reports that the watch has fired: the znode was set or deleted, or the connection broke.
func (i identity) changed() bool {
	select {
	case <-i.watch:
		return true
	default:
		return false
	}
}

// issuerNode reads the issuer's znode with get, and makes it where there is none.
func (s *session) issuerNode(ctx context.Context, get func(context.Context, string) (node, error)) (node, error) {
	at := s.c.issuerPath()
	for {
		n, err := get(ctx, at)
		if err == nil || !errors.Is(err, zk.ErrNoNode) {
			return n, s.c.explain(at, err)
		}
		if err := s.makeIssuer(ctx, at); err != nil {
			return node{}, err
		}
	}
}

// makeIssuer succeeds too when somebody else was faster, or when an earlier try had no reply.
func (s *session) makeIssuer(ctx context.Context, at string) error {
	if err := s.ensure(ctx, path.Dir(at)); err != nil {
		return err
	}
	id := []byte(newUUID())
	_, err := read(ctx, s, func(conn *zk.Conn) (string, error) {
		return conn.Create(at, id, zk.FlagPersistent, s.c.acl)
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // the caller reads again; the parent may have been deleted
	}
	return s.c.explain(at, err)
}

// RenewIssuer makes the ensemble another issuer, as if it had been built anew. It is for an operator who has restored the
// ensemble from a backup: its counter gives numbers out a second time. Claims of before are of another issuer from then on,
// and each resource has to be adopted. A guard's client names a number alone, so all leaders of before have to be stopped
// first. ErrUnreachable: it may have happened; call it again.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	at, id := c.issuerPath(), []byte(newUUID())
	return observe(ctx, c, func(ctx context.Context, s *session) (fence.Issuer, error) {
		if _, err := s.issuer(ctx); err != nil { // not ours to write over
			return "", err
		}
		if _, err := read(ctx, s, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(at, id, -1) }); err != nil {
			return "", c.explain(at, err)
		}
		return parseIssuer(at, id)
	})
}

func newUUID() string {
	g := []byte(newGUID())
	g[12], g[16] = '4', "89ab"[g[16]%4] // version 4, variant 1
	return fmt.Sprintf("%s-%s-%s-%s-%s", g[:8], g[8:12], g[12:16], g[16:20], g[20:])
}

func parseIssuer(at string, data []byte) (fence.Issuer, error) {
	if len(data) != uuidLength {
		return "", fmt.Errorf("%w: znode %s holds %d bytes, not a UUID: does another program use this path?", errNotIssuer, at, len(data))
	}
	for _, c := range data {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && c != '-' {
			return "", fmt.Errorf("%w: znode %s holds something other than a UUID: does another program use this path?", errNotIssuer, at)
		}
	}
	return fence.Issuer("zk:" + string(data)), nil
}
