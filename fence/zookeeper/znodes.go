package zookeeper

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

const (
	candidatePrefix = "c-"
	leaderName      = "leader"
)

// guid marks a candidate as one campaign's own, so that it is found again when the reply to its creation was lost.
type guid string

func newGUID() guid {
	var b [16]byte
	rand.Read(b[:])
	return guid(hex.EncodeToString(b[:]))
}

// guidOf reads a candidate's name, c-<32 hexadecimal digits>-<sequence>. Anything else in an election is foreign. The
// sequence may be negative: the server's counter wraps.
func guidOf(name string) (guid, bool) {
	rest, ok := strings.CutPrefix(name, candidatePrefix)
	id, sequence, cut := strings.Cut(rest, "-")
	if !ok || !cut || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", false
	}
	if _, err := strconv.ParseInt(sequence, 10, 32); err != nil || sequence[0] == '+' {
		return "", false
	}
	return guid(id), true
}

func isCandidate(name string) bool {
	_, ok := guidOf(name)
	return ok
}

// candidateData is what a candidate's znode holds.
type candidateData struct {
	Holder string `json:"holder"`
}

// leaderData is what the acknowledgement holds.
type leaderData struct {
	Token  fence.Token `json:"token"`
	Holder string      `json:"holder"`
}

// parse reads data that somebody else may have written; what does not fit is the zero value.
func parse[T any](data []byte) T {
	var v, none T
	if json.Unmarshal(data, &v) != nil {
		return none
	}
	return v
}

// encode cannot fail for the types above.
func encode(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// stat returns nil for a znode that does not exist.
func (s *session) stat(ctx context.Context, at string) (*zk.Stat, error) {
	return read(ctx, s, func(conn *zk.Conn) (*zk.Stat, error) {
		exists, stat, err := conn.Exists(at)
		if err != nil || !exists {
			return nil, err
		}
		return stat, nil
	})
}

// list returns the names of the children. The error is zk.ErrNoNode when there is no such znode.
func (s *session) list(ctx context.Context, at string) ([]string, error) {
	return read(ctx, s, func(conn *zk.Conn) ([]string, error) {
		names, _, err := conn.Children(at)
		return names, err
	})
}

// node is a znode's content.
type node struct {
	data []byte
	stat *zk.Stat
}

// get returns zk.ErrNoNode when there is no such znode.
func (s *session) get(ctx context.Context, at string) (node, error) { return read(ctx, s, getter(at)) }

func getter(at string) func(*zk.Conn) (node, error) {
	return func(conn *zk.Conn) (node, error) {
		data, stat, err := conn.Get(at)
		return node{data, stat}, err
	}
}

// sync makes the reads that follow in this session as fresh as the ensemble's leader was when it began.
func (s *session) sync(ctx context.Context, at string) error {
	_, err := read(ctx, s, func(conn *zk.Conn) (string, error) { return conn.Sync(at) })
	return err
}

// ensure makes a persistent znode and those above it, where they are missing.
func (s *session) ensure(ctx context.Context, at string) error {
	err := s.makeNode(ctx, at)
	if !errors.Is(err, zk.ErrNoNode) || path.Dir(at) == at {
		return err
	}
	if err := s.ensure(ctx, path.Dir(at)); err != nil {
		return err
	}
	return s.makeNode(ctx, at)
}

func (s *session) makeNode(ctx context.Context, at string) error {
	_, err := read(ctx, s, func(conn *zk.Conn) (string, error) {
		return conn.Create(at, nil, zk.FlagPersistent, s.c.acl)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return s.c.explain(at, err)
}
