package inject

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// revoke ends the leader's session by the means of the coordinator itself, as an operator would.
func (r *Injector) revoke(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	at := r.sys.Addresses().Coordinator
	co, err := system.OpenCoordinator(ctx, at, coordinators.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	token, err := leadingToken(ctx, co)
	if err != nil {
		return err
	}
	var what string
	switch r.Topology.Elections {
	case scenario.InEtcd:
		what, err = r.revokeLease(ctx, token)
	case scenario.InPostgres:
		what = "the row of the session was deleted"
		err = system.Exec(ctx, at, fmt.Sprintf(`delete from ringfence_private.lease s
			using ringfence_private.candidate c
			where c.lease = s.id and c.resource = '%s' and c.token = %d`, scenario.Resource, token))
	default:
		what, err = closeSession(ctx, at, token)
	}
	r.rec.Note("operator", fmt.Sprintf("leader with token %v: %s", token, what))
	return err
}

// revokeLease does what etcdctl lease revoke does.
func (r *Injector) revokeLease(ctx context.Context, t fence.Token) (what string, err error) {
	err = r.withEtcd(ctx, func(c *clientv3.Client) error {
		// With the value, because etcd 3.7 returns no lease with a key alone.
		found, err := c.Get(ctx, "/", clientv3.WithPrefix(),
			clientv3.WithMinCreateRev(int64(t)), clientv3.WithMaxCreateRev(int64(t)))
		if err != nil {
			return err
		}
		if len(found.Kvs) != 1 || found.Kvs[0].Lease == 0 {
			return fmt.Errorf("no key with a lease was created at revision %d: %v", t, found.Kvs)
		}
		what = fmt.Sprintf("lease %x was revoked", found.Kvs[0].Lease)
		_, err = c.Revoke(ctx, clientv3.LeaseID(found.Kvs[0].Lease))
		return err
	})
	return what, err
}

// closeSession closes the session that owns the leader's znode, from another connection. ZooKeeper
// has no command for that, but lets everybody who knows a session's id and password take it over.
// The id is the znode's owner, and the password is computed from the id.
func closeSession(ctx context.Context, at string, t fence.Token) (what string, err error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	servers := strings.Split(u.Host, ",")
	c, _, err := zk.Connect(servers, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return "", err
	}
	defer c.Close()
	owner, err := ownerOf(c, u.Path, t)
	if err != nil {
		return "", err
	}
	if owner == 0 {
		return "", fmt.Errorf("no session owns a znode that was created at %v", t)
	}
	for { // until it has worked: the leader comes back at once, and takes its session over in turn
		err := endSession(ctx, servers[0], owner)
		left, again := ownerOf(c, u.Path, t)
		if left == 0 && again == nil {
			return fmt.Sprintf("session %x was closed", owner), nil
		}
		if system.Sleep(ctx, lookAgain) != nil {
			return "", errors.Join(fmt.Errorf("session %x was not closed", owner), err, again)
		}
	}
}

// ownerOf finds the owner of the znode below dir that was created under a zxid; 0: there is none.
func ownerOf(c *zk.Conn, dir string, t fence.Token) (owner int64, err error) {
	names, stat, err := c.Children(dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return 0, nil // deleted since it was listed
	case err != nil:
		return 0, err
	case stat.Czxid == int64(t) && stat.EphemeralOwner != 0:
		return stat.EphemeralOwner, nil
	}
	for _, name := range names {
		if owner, err = ownerOf(c, path.Join(dir, name), t); owner != 0 || err != nil {
			return owner, err
		}
	}
	return 0, nil
}

// endSession takes over a session and closes it. It sends both requests at once.
func endSession(ctx context.Context, address string, session int64) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(closeTime))
	// ConnectRequest: version, last zxid seen, timeout in milliseconds, session, password.
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, 1000)
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = append(binary.BigEndian.AppendUint32(b, 16), sessionPassword(session)...)
	// RequestHeader: number, type. -11 is closeSession.
	closing := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, 0xfffffff5)
	if _, err := c.Write(append(packet(b), packet(closing)...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c) // the server ends the connection with the session
	return err
}

// packet puts the length before a request.
func packet(request []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
}

// sessionPassword is ZooKeeperServer.generatePasswd: sixteen bytes of java.util.Random, seeded with
// the session and a constant.
func sessionPassword(session int64) []byte {
	const (
		secret     = 0xb3415c00
		multiplier = 0x5deece66d
		mask       = 1<<48 - 1
	)
	state := (uint64(session) ^ secret ^ multiplier) & mask
	var p []byte
	for range 4 {
		state = (state*multiplier + 0xb) & mask
		p = binary.LittleEndian.AppendUint32(p, uint32(state>>16))
	}
	return p
}
