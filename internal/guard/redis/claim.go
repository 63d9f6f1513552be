package redis

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// claiming is a command that claims.
type claiming struct {
	raw    []byte
	args   [][]byte
	own    bool // FENCE, which Redis is not shown; else the claim is in a client name
	claims []marks.Presented
}

// claim admits the session, or answers why not, in the time for one admission as a whole. Only with the answer does the
// client know that it may write.
func (c *conn) claim(ctx context.Context, m claiming) error {
	c.client.Seat.Working()
	admission, cancel := context.WithTimeout(ctx, c.p.o.Admission.Limit())
	defer cancel()
	admission, steps := marks.WithSteps(admission)
	answer, err := c.admission(ctx, admission, m)
	c.p.o.Admission.Finish(steps, m.claims[0].Under(""), err)
	if err == nil {
		_, err = c.tell(answer)
		return err
	}
	if c.leg != nil {
		_ = c.leg.Close() // the client may take long to leave
	}
	if outOfTime(admission, err) && ctx.Err() == nil {
		err = c.late(m.claims, err)
		c.p.pursuits.begin(c.session, m.claims)
		if c.session == (marks.Session{}) {
			c.p.o.Admission.Report(err, "")
		}
	}
	told := c.refused(ctx, m.own, err)
	if errors.Is(err, guard.Full) {
		return err // to be counted
	}
	return told
}

// admission returns the answer to a claim, which need not be that it is admitted: the login may have failed.
func (c *conn) admission(ctx, admission context.Context, m claiming) ([]byte, error) {
	for i := range m.claims {
		m.claims[i].Holder = guard.Peer(c.client) // for people, until the coordinator knows better
	}
	if err := c.p.early(admission, m.claims); err != nil {
		return nil, err
	}
	if err := c.reach(ctx, admission); err != nil {
		return nil, err
	}
	until, _ := admission.Deadline()
	c.leg.answerBy(ctx, until)
	defer c.leg.answerBy(ctx, time.Time{})
	held, err := c.login(admission, m)
	if err == nil {
		err = c.admit(admission, m.claims)
	}
	var answered serverError
	if errors.As(err, &answered) && c.session == (marks.Session{}) {
		_ = c.rename()
		return answered, nil // not logged in, or not allowed to: nothing was raised
	}
	if err == nil {
		end := marks.StepSlot.Begin(admission)
		err = c.client.Seat.Admit(admission)
		end()
	}
	if err != nil {
		return nil, err
	}
	c.claims = m.claims
	return held, nil
}

// login forwards a command that carries a claim in a client name, and holds its reply back. A serverError: the login
// failed, so nothing is claimed. FENCE goes nowhere.
func (c *conn) login(ctx context.Context, m claiming) ([]byte, error) {
	if m.own {
		return []byte("+OK\r\n"), nil
	}
	defer marks.StepLogin.Begin(ctx)()
	var held bytes.Buffer
	err := c.patiently(ctx, m.claims, func() error {
		held.Reset()
		if _, err := c.leg.Conn.Write(m.raw); err != nil {
			return err
		}
		kind, err := c.leg.reply(&held, answers{c})
		if err == nil && kind == '-' {
			return serverError(bytes.Clone(held.Bytes()))
		}
		return err
	})
	if err == nil {
		c.named(m.args)
	}
	return held.Bytes(), err
}

// early refuses claims for which the server need not be asked.
func (p *Protocol) early(ctx context.Context, claims []marks.Presented) error {
	err := p.serves(claims)
	if err == nil {
		err = p.o.Admission.Precheck(ctx, claims)
	}
	p.o.Admission.Report(err, "")
	return err
}

// admit identifies the session and opens it. A client that is not logged in gets no further than its own leg, so it
// cannot raise a mark.
func (c *conn) admit(ctx context.Context, claims []marks.Presented) error {
	if err := c.identify(ctx, claims); err != nil {
		return err
	}
	if err := c.p.o.Admission.Admit(ctx, c.session, claims); err != nil {
		return err
	}
	// The answer also shows that the session was not ended meanwhile, with everybody else's, to mend a lost registry.
	defer marks.StepIdentify.Begin(ctx)()
	err := c.patiently(ctx, claims, c.rename)
	var r *fence.Refusal
	if err == nil || errors.As(err, &r) || ctx.Err() != nil {
		return err
	}
	return refusal.Unrevoked(claims[0].Under(""), "the mark is raised, and this session was ended while it was admitted: "+err.Error(), err)
}

// identify finds out which session of the server this is.
func (c *conn) identify(ctx context.Context, claims []marks.Presented) error {
	defer marks.StepIdentify.Begin(ctx)()
	id, nonce, err := c.tag(ctx, claims)
	if err != nil {
		return err
	}
	if c.session, err = c.p.o.Store.Identify(ctx, id, nonce); err != nil {
		return fmt.Errorf("the session could not be identified, nothing was admitted: %w", err)
	}
	return nil
}

// tag gives the leg a name that nobody else can know, and returns the client's id. It asks for both at once, for each
// answer can take seconds while the scripts of older leaders run.
func (c *conn) tag(ctx context.Context, claims []marks.Presented) (id int64, nonce string, err error) {
	nonce = rand.Text()
	var answers []string
	err = c.patiently(ctx, claims, func() (err error) {
		answers, err = c.leg.ask(c.client, []string{"CLIENT", "ID"}, []string{"CLIENT", "SETNAME", nonce})
		return err
	})
	if err != nil {
		return 0, "", err
	}
	id, err = strconv.ParseInt(answers[0], 10, 64)
	return id, nonce, err
}

// rename gives the leg the client's own name back.
func (c *conn) rename() error {
	_, err := c.leg.ask(c.client, []string{"CLIENT", "SETNAME", c.name})
	return err
}

// named keeps the name that a command of the client has given to its connection.
func (c *conn) named(args [][]byte) {
	if name, ok := clientName(args); ok {
		c.name = string(name)
	}
}

// serves refuses resources that this guard is not set up for.
func (p *Protocol) serves(claims []marks.Presented) error {
	for _, claim := range claims {
		if len(p.o.Resources) > 0 && !slices.Contains(p.o.Resources, claim.Resource) {
			r := refusal.BadClaim(fmt.Sprintf("resource %q is not served here", claim.Resource), fmt.Sprintf("this guard serves %v", p.o.Resources), nil)
			r.Claim = claim.Under("")
			return r
		}
	}
	return nil
}
