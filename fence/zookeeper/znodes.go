package zookeeper

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// Names of the znodes in an election.
const (
	prefix     = "c-" // of a candidate
	leaderName = "leader"
)

// issuerPath returns the path of the issuer's znode.
func issuerPath(c *ensemble.Client) string { return c.Path + "/issuer" }

func electionsPath(c *ensemble.Client) string { return c.Path + "/elections" }

// dir returns the path of a resource's election.
func (c *Coordinator) dir(r fence.Resource) string {
	return electionsPath(c.client) + "/" + string(r)
}

// guid marks a candidate as one campaign's own, so that the campaign finds it again when the reply
// to its creation was lost.
type guid string

// newGUID returns a random guid.
func newGUID() guid {
	var b [16]byte
	rand.Read(b[:])
	return guid(hex.EncodeToString(b[:]))
}

// guidIn reads a candidate's name, c-<32 hexadecimal digits>-<sequence>. Anything else in an
// election is foreign. The sequence may be negative: the server's counter wraps.
func guidIn(name string) (guid, bool) {
	id, _, ok := parseName(name)
	return id, ok
}

func parseName(name string) (id guid, sequence int32, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	random, suffix, cut := strings.Cut(rest, "-")
	if !ok || !cut || len(random) != 32 || strings.Trim(random, "0123456789abcdef") != "" {
		return "", 0, false
	}
	n, err := strconv.ParseInt(suffix, 10, 32)
	if err != nil || suffix[0] == '+' {
		return "", 0, false
	}
	return guid(random), int32(n), true
}

// seemsOlder guesses from the sequence numbers of two candidates of one election whether the first
// is older. The guess is right unless the counter of the election has made half a turn between the
// two, or somebody else has made up a name.
func seemsOlder(one, other string) bool {
	_, a, _ := parseName(one)
	_, b, _ := parseName(other)
	return a-b < 0 // also if the counter has wrapped
}

// namePrefix begins the candidate's name. The server appends a sequence number.
func (id guid) namePrefix() string { return prefix + string(id) + "-" }

// isCandidate reports that guidIn can read the name.
func isCandidate(name string) bool {
	_, ok := guidIn(name)
	return ok
}

// entryData is what a candidate's znode holds, as JSON.
type entryData struct {
	Holder string `json:"holder"`
}

// acknowledgement is what the leader's acknowledgement holds, as JSON.
type acknowledgement struct {
	Token  fence.Token `json:"token"`
	Holder string      `json:"holder"`
}

// parse decodes data that another program may have written. What does not fit becomes the zero
// value.
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
