package redisguard

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// claimCommand is a command that claims.
type claimCommand struct {
	raw     []byte
	args    [][]byte
	isFence bool // FENCE, which Redis never sees; otherwise the claim is in a client name
	claims  []marks.Presented
}

// claim admits the session or refuses the claim, within the time limit of one admission. The client
// gets its answer only then, so until then it does not know that it may write.
func (c *conn) claim(ctx context.Context, cmd claimCommand) error {
	c.client.Seat.Working()
	who := c.who(cmd.args)
	ctx = marks.WithClient(ctx, who)
	admission, cancel := context.WithTimeout(ctx, c.p.o.Admission.Limit())
	defer cancel()
	admission, steps := marks.WithSteps(admission)
	answer, err := c.admission(ctx, admission, cmd)
	c.p.o.Admission.Finish(ctx, steps, cmd.claims[0].Under(""), err)
	if err == nil {
		_, err = c.send(answer)
		return err
	}
	if c.upstream != nil {
		_ = c.upstream.Close() // now, because the client may take long to leave
	}
	if timedOut(admission, err) && ctx.Err() == nil {
		err = c.timeoutRefusal(cmd.claims, err)
		c.p.background.start(who, c.session, cmd.claims)
		if c.session == (marks.SessionID{}) {
			c.p.o.Admission.Report(ctx, err, cmd.claims[0].Holder)
		}
	}
	sent := c.refused(ctx, cmd.isFence, err)
	switch {
	case errors.Is(err, guard.Full): // Server counts these
		return err
	case errors.Is(err, errFull):
		return guard.NoRoom
	}
	return sent
}

// admission returns the reply to a claim. The reply can be an error of Redis, if the login failed;
// then nothing was admitted and nothing was raised.
func (c *conn) admission(ctx, admission context.Context, cmd claimCommand) ([]byte, error) {
	for i := range cmd.claims {
		cmd.claims[i].Holder = guard.Peer(c.client) // until the coordinator names the holder
	}
	if err := c.p.precheck(admission, cmd.claims); err != nil {
		return nil, err
	}
	defer c.answersWhenever(ctx)
	reply, err := c.enter(ctx, admission, cmd)
	if c.isFull(admission, err) {
		reply, err = c.intoRoom(admission, cmd, func() ([]byte, error) {
			return c.enter(ctx, admission, cmd)
		})
	}
	if answered, ok := errors.AsType[serverError](err); ok && c.session == (marks.SessionID{}) {
		_ = c.restoreName()
		return answered, nil // not logged in, or without the right to run the guard's commands
	}
	if err == nil {
		end := marks.StepSlot.Begin(admission)
		err = c.client.Seat.Admit(admission)
		end()
	}
	if err != nil {
		return nil, err
	}
	c.claims = cmd.claims
	return reply, nil
}

// enter connects, logs in, and has the session admitted.
func (c *conn) enter(ctx, admission context.Context, cmd claimCommand) (reply []byte, err error) {
	if err := c.connect(ctx, admission); err != nil {
		return nil, err
	}
	until, _ := admission.Deadline()
	c.upstream.answersBy(ctx, until)
	if reply, err = c.login(admission, cmd); err == nil {
		err = c.admit(admission, cmd.claims)
	}
	return reply, err
}

// login forwards a command that carries a claim in a client name, and holds back its reply, which
// it returns. A serverError means that the login failed, so nothing is claimed. FENCE is not
// forwarded.
func (c *conn) login(ctx context.Context, cmd claimCommand) ([]byte, error) {
	if cmd.isFence {
		return []byte("+OK\r\n"), nil
	}
	defer marks.StepLogin.Begin(ctx)()
	var reply bytes.Buffer
	err := c.retryWhileBusy(ctx, cmd.claims, func() error {
		reply.Reset()
		if err := c.upstream.send(cmd.raw); err != nil {
			return err
		}
		kind, err := c.upstream.copyReply(&reply, replyWriter{c})
		if err == nil && kind == '-' {
			return serverError(bytes.Clone(reply.Bytes()))
		}
		return err
	})
	if err == nil {
		c.remember(cmd.args)
	}
	return reply.Bytes(), err
}

// precheck refuses the claims that can be refused without the server.
func (p *Protocol) precheck(ctx context.Context, claims []marks.Presented) error {
	err := p.checkResources(claims)
	if err == nil {
		err = p.o.Admission.Precheck(ctx, claims)
	}
	p.o.Admission.Report(ctx, err, claims[0].Holder)
	return err
}

// admit identifies the session and opens it. For a client that is not logged in, the commands on
// its upstream connection already fail, so it cannot raise a mark.
func (c *conn) admit(ctx context.Context, claims []marks.Presented) error {
	if err := c.identify(ctx, claims); err != nil {
		return err
	}
	var err error
	if c.primary, err = c.p.primaries.join(ctx, c.session.Run); err != nil {
		return err
	}
	c.recorded = claims
	if err := c.p.o.Admission.Admit(ctx, c.session, claims); err != nil {
		return err
	}
	// The answer also shows that the session is still there: to recover a lost registry, another guard
	// may have ended all sessions.
	defer marks.StepIdentify.Begin(ctx)()
	err = c.retryWhileBusy(ctx, claims, c.restoreName)
	if _, refused := errors.AsType[*fence.Refusal](err); err == nil || refused || ctx.Err() != nil {
		return err
	}
	return refusal.RedisEnded(claims[0].Under(""), err)
}

// identify finds out which session of the server this is.
func (c *conn) identify(ctx context.Context, claims []marks.Presented) error {
	defer marks.StepIdentify.Begin(ctx)()
	id, nonce, err := c.tag(ctx, claims)
	if err != nil {
		return err
	}
	s, err := c.p.o.Store.Identify(ctx, id, nonce)
	if err != nil {
		return fmt.Errorf("the session could not be identified, nothing was admitted: %w", err)
	}
	if err := c.checkIdentified(s.User); err != nil {
		return err
	}
	c.session = s
	return nil
}

// tag gives the upstream connection a name that nobody else can know, and returns the client's id.
// It sends both commands at once, because each answer can take seconds while the scripts of older
// leaders run.
func (c *conn) tag(
	ctx context.Context, claims []marks.Presented,
) (id int64, nonce string, err error) {
	nonce = rand.Text()
	var answers []string
	err = c.retryWhileBusy(ctx, claims, func() (err error) {
		answers, err = c.upstream.do(c.client,
			[]string{"CLIENT", "ID"}, []string{"CLIENT", "SETNAME", nonce})
		return err
	})
	if err != nil {
		return 0, "", err
	}
	id, err = strconv.ParseInt(answers[0], 10, 64)
	return id, nonce, err
}

// restoreName gives the upstream connection the client's own name again.
func (c *conn) restoreName() error {
	_, err := c.upstream.do(c.client, []string{"CLIENT", "SETNAME", c.name})
	return err
}

// checkResources refuses resources that this guard does not serve.
func (p *Protocol) checkResources(claims []marks.Presented) error {
	for _, claim := range claims {
		if len(p.o.Resources) > 0 && !slices.Contains(p.o.Resources, claim.Resource) {
			r := refusal.BadClaim(fmt.Sprintf("resource %q is not served here", claim.Resource),
				fmt.Sprintf("this guard serves %v", p.o.Resources), nil)
			r.Claim = claim.Under("")
			return r
		}
	}
	return nil
}
