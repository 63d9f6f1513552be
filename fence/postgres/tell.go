package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// teller sends notices about what is committed, on a connection of its own. While one call is under
// way it collects what the next one sends. A notice that is lost costs only time.
type teller struct {
	c *Coordinator

	mu      sync.Mutex
	running bool
	news    map[notice]bool
	vacant  map[fence.Resource]bool // elections whose leader has resigned
}

type notice struct{ channel, payload string }

// channelOf is the channel of a folder of documents.
func channelOf(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return folderChannel + hex.EncodeToString(sum[:16])
}

// about returns the notices about writes.
func about(writes []documents.Write) (all []notice) {
	for _, w := range writes {
		if w.Kind != documents.KindCheck {
			all = append(all, notice{channelOf(path.Dir(w.Path)), path.Base(w.Path)})
		}
	}
	return all
}

// tell sends notices soon. It does not wait.
func (t *teller) tell(all ...notice) {
	t.add(func() {
		for _, n := range all {
			t.news[n] = true
		}
	})
}

// resigned sends the notices of a resignation soon.
func (t *teller) resigned(r fence.Resource) {
	t.add(func() { t.news[notice{electionChannel + string(r), ""}], t.vacant[r] = true, true })
}

func (t *teller) add(news func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.news == nil {
		t.news, t.vacant = map[notice]bool{}, map[fence.Resource]bool{}
	}
	news()
	if !t.running {
		t.running = t.c.frame.TryGo(t.run)
	}
}

// maxTell bounds one call.
const maxTell = 2 * time.Second

// run sends what there is to send. Close waits for it.
func (t *teller) run() {
	for {
		t.mu.Lock()
		news, vacant := t.news, t.vacant
		t.news, t.vacant = nil, nil
		if t.running = len(news) > 0; !t.running {
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		t.send(news, vacant)
	}
}

func (t *teller) send(news map[notice]bool, vacant map[fence.Resource]bool) {
	channels, payloads, elections := []string{}, []string{}, []string{}
	for n := range news {
		channels, payloads = append(channels, n.channel), append(payloads, n.payload)
	}
	for r := range vacant {
		elections = append(elections, string(r))
	}
	ctx := context.WithoutCancel(t.c.frame.Context())
	_, err := once(ctx, t.c.tells, maxTell, perform("tell($1, $2, $3)", channels, payloads, elections))
	if err != nil {
		t.c.frame.Log.Debug("notices were not sent; whoever waits for them looks later", "error", err)
	}
}
