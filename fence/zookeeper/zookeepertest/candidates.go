package zookeepertest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

// candidatePrefix begins a candidate's name, c-<guid>-<sequence>.
const candidatePrefix = "c-"

func newGUID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// NewUUID returns a name for an issuer.
func NewUUID() string {
	g := newGUID()
	return fmt.Sprintf("%s-%s-%s-%s-%s", g[:8], g[8:12], g[12:16], g[16:20], g[20:])
}

// CandidateName returns a name that no other candidate has.
func CandidateName(sequence string) string { return candidatePrefix + newGUID() + "-" + sequence }

// Craft makes a candidate with a sequence suffix of our choice, in the admin's session, and returns
// its path.
func Craft(t testing.TB, admin *zk.Conn, dir, holder, sequence string, flags int32) string {
	t.Helper()
	at := path.Join(dir, CandidateName(sequence))
	_, err := admin.Create(at, candidateData(holder), flags, zk.WorldACL(zk.PermAll))
	must.Succeed(t, err)
	return at
}

func candidateData(holder string) []byte { return fmt.Appendf(nil, `{"holder":%q}`, holder) }

// CraftTwins makes two candidates in one transaction, and returns their names and their token.
func CraftTwins(t testing.TB, admin *zk.Conn, dir string) (names []string, token fence.Token) {
	t.Helper()
	var both []any
	for _, holder := range []string{"one", "other"} {
		names = append(names, CandidateName("0000000000"))
		both = append(both, &zk.CreateRequest{
			Path: path.Join(dir, names[len(names)-1]), Data: candidateData(holder),
			Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral,
		})
	}
	_, err := admin.Multi(both...)
	must.Succeed(t, err)
	for _, name := range names {
		_, stat, err := admin.Get(path.Join(dir, name))
		if err != nil || token != 0 && token != fence.Token(stat.Czxid) {
			t.Fatalf("the two have the tokens %v and %v: this test proves nothing; %v", token,
				stat.Czxid, err)
		}
		token = fence.Token(stat.Czxid)
	}
	return names, token
}

// DeleteCandidate deletes the candidate with the token from an election.
func DeleteCandidate(t testing.TB, conn *zk.Conn, dir string, token fence.Token) {
	t.Helper()
	names, _, err := conn.Children(dir)
	must.Succeed(t, err)
	for _, name := range names {
		if _, stat, err := conn.Exists(path.Join(dir, name)); err == nil && stat.Czxid == int64(token) {
			must.Succeed(t, conn.Delete(path.Join(dir, name), -1))
			return
		}
	}
	t.Fatalf("no candidate %v in %s", token, dir)
}
