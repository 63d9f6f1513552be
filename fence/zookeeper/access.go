package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

// warnOfAccess logs who but this user may change elections. Open calls it, so each Coordinator warns
// once, whatever sessions it opens. What was created without credentials, or by others, keeps its ACL.
func (c *Coordinator) warnOfAccess(ctx context.Context) {
	if c.address.user == "" {
		c.log.Warn("anybody who reaches this ZooKeeper can depose leaders and make candidates; " +
			"with credentials in the URL, zk://user:password@..., only that user can change what is created")
		return
	}
	at, others, err := c.others(ctx)
	switch {
	case err != nil:
		c.log.Debug("who else may change the znodes could not be read", "error", err)
	case len(others) > 0:
		c.log.Warn("others than the user of the ZooKeeper URL can depose leaders and make candidates, "+
			"for they may change a znode that was created before; once every program has these credentials, "+
			"give this user alone the root and all below it",
			"zkCli.sh", fmt.Sprintf("addauth digest %s:PASSWORD; setAcl -R %s auth::cdrwa", c.address.user, c.address.root),
			"znode", at, "others", others)
	}
}

// others returns the first of the upper znodes that somebody else may change, and who.
func (c *Coordinator) others(ctx context.Context) (at string, others []string, err error) {
	others, err = observe(ctx, c, func(ctx context.Context, s *session) ([]string, error) {
		for _, at = range []string{c.address.root, c.issuerPath(), c.electionsPath()} {
			acl, err := s.acl(ctx, at)
			if err != nil && !denied(err) {
				return nil, err
			}
			if others := c.writers(acl); len(others) > 0 {
				return others, nil
			}
		}
		return nil, nil
	})
	return at, others, err
}

// acl is empty for a znode that does not exist.
func (s *session) acl(ctx context.Context, at string) ([]zk.ACL, error) {
	acl, err := read(ctx, s, func(conn *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := conn.GetACL(at)
		return acl, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return acl, err
}

// writers names those but the URL's user who may do more than read. A digest's hash is left out.
func (c *Coordinator) writers(acl []zk.ACL) (others []string) {
	const digest = "digest"
	for _, a := range acl {
		id := a.ID
		if a.Scheme == digest {
			id, _, _ = strings.Cut(id, ":")
		}
		if a.Perms&^zk.PermRead != 0 && (a.Scheme != digest || id != c.address.user) {
			others = append(others, a.Scheme+":"+id)
		}
	}
	return others
}
