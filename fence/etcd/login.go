package etcd

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ringfence/ringfence/internal/network/password"
)

// login logs a user in, and signs requests with the token that it gets, for as long as etcd accepts
// that.
//
// The library knows of no user. It would log in once more for each stream, and the renewal of a
// lease is one: a login takes some 70 ms of etcd's processor. It would also keep the token of a
// stream of watches for as long as one of them lasts. etcd refuses new watches there once the token
// has expired (or, of a JWT, once any user or role has changed). And it sends the old token with
// the login that is to replace it, which etcd 3.4 refuses (etcd issue 13413).
type login struct {
	user     string
	fixed    string           // the password, unless it may change
	password *password.Source // of one that may change, or nil

	present chan token // holds one
}

// token is what etcd has answered to a login. It is empty where authentication is off.
type token struct {
	text  string
	valid bool // as far as is known
}

// attach adds the token to a request.
func (t token) attach(ctx context.Context) context.Context {
	if t.text == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, t.text)
}

// newLogin does not log in yet.
func newLogin(user, fixed string, changing *password.Source) *login {
	l := &login{user: user, fixed: fixed, password: changing, present: make(chan token, 1)}
	l.present <- token{}
	return l
}

// intercept is a grpc.UnaryClientInterceptor below the library's own. It signs a request, and
// repeats one whose token has expired.
func (l *login) intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	if _, ok := req.(*pb.AuthenticateRequest); ok {
		return invoke(ctx, method, req, reply, cc, o...)
	}
	try := func() error {
		s, err := l.sign(ctx, cc)
		if err == nil {
			err = invoke(s.ctx, method, req, reply, cc, o...)
			s.check(err)
		}
		return err
	}
	err := try()
	if !expired(err) {
		return err
	}
	if err = try(); expired(err) {
		// as another error, so that the library does not repeat it a hundred times
		return fmt.Errorf("etcd refuses the token of a new login: %v", err)
	}
	return err
}

// signed is a request with a token.
type signed struct {
	ctx context.Context
	by  *login
	t   token
}

// sign adds the present token to a request, and logs in if there is none. Without a user it does
// nothing.
func (l *login) sign(ctx context.Context, cc *grpc.ClientConn) (s signed, err error) {
	if l == nil {
		return signed{ctx: ctx}, nil
	}
	var t token
	select {
	case t = <-l.present:
	case <-ctx.Done():
		return signed{}, context.Cause(ctx)
	}
	defer func() { l.present <- t }()
	if !t.valid {
		if t.text, err = l.authenticate(ctx, cc); err != nil {
			return signed{}, err
		}
		t.valid = true
	}
	return signed{t.attach(ctx), l, t}, nil
}

// check has the next request log in if the answer to this one says that its token has expired.
func (s signed) check(err error) {
	if s.by == nil || !expired(err) {
		return
	}
	t := <-s.by.present
	t.valid = t.valid && t.text != s.t.text // or another request has logged in since
	s.by.present <- t
}

// attach adds the present token, whether it is valid or not.
func (l *login) attach(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	t := <-l.present
	l.present <- t
	return t.attach(ctx)
}

// authenticate returns a new token.
func (l *login) authenticate(ctx context.Context, cc *grpc.ClientConn) (text string, err error) {
	send := func(password string) error {
		answer, err := pb.NewAuthClient(cc).Authenticate(ctx, &pb.AuthenticateRequest{
			Name: l.user, Password: password,
		})
		err = rpctypes.Error(err)
		if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
			err = nil
		}
		text = answer.GetToken()
		return err
	}
	if l.password == nil {
		err = send(l.fixed)
	} else {
		err = l.password.Login(ctx, wrongPassword, send)
	}
	return text, err
}

func wrongPassword(err error) bool { return errors.Is(err, rpctypes.ErrAuthFailed) }

// expired reports that a request needs another token. Old servers have a text of their own for it.
func expired(err error) bool {
	for _, other := range []error{rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrUserEmpty} {
		if errors.Is(rpctypes.Error(err), other) {
			return true
		}
	}
	return err != nil && rpctypes.ErrorDesc(err) == "auth: revision in header is old"
}
