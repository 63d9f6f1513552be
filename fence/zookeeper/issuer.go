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
	at := s.c.issuerPath()
	for {
		n, err := s.get(ctx, at)
		if err == nil {
			return parseIssuer(at, n.data)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return "", s.c.explain(at, err)
		}
		if err := s.makeIssuer(ctx, at); err != nil {
			return "", err
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
