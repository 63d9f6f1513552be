package etcd

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/internal/network/password"
)

// login makes logins. It sends the present password if that may change, and repeats logins that the
// server refuses because of an expired token.
//
// The library sends its token with every request, also with the login that is to replace the token.
// etcd 3.4 checks it there, too (etcd issue 13413). So a client that was idle for longer than
// --auth-token-ttl, such as a guard at night, could never log in again.
type login struct {
	cfg      clientv3.Config  // without the user, so its client sends no token
	password *password.Source // nil: that of the request

	mu     sync.Mutex
	client *clientv3.Client // nil until it is needed
	closed bool
}

// intercept is a grpc.UnaryClientInterceptor below the library's own.
func (l *login) intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	request, ok := req.(*pb.AuthenticateRequest)
	if !ok {
		return invoke(ctx, method, req, reply, cc, o...)
	}
	send := func(r *pb.AuthenticateRequest) error {
		return l.repeat(ctx, r, reply, invoke(ctx, method, r, reply, cc, o...))
	}
	if l.password == nil {
		return send(request)
	}
	var last error
	err := l.password.Login(ctx, wrongPassword, func(present string) error {
		last = send(&pb.AuthenticateRequest{Name: request.Name, Password: present})
		return last
	})
	if wrongPassword(last) {
		return last // the library knows it only without more text
	}
	return err
}

func wrongPassword(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed) }

// repeat repeats a login without a token, if that was refused.
func (l *login) repeat(ctx context.Context, request *pb.AuthenticateRequest, reply any, err error) error {
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrInvalidAuthToken) {
		return err
	}
	client, failed := l.connect()
	if failed != nil {
		return err
	}
	answer, err := client.Authenticate(ctx, request.Name, request.Password)
	if err != nil {
		return err
	}
	response := reply.(*pb.AuthenticateResponse)
	response.Header, response.Token = answer.Header, answer.Token
	return nil
}

func (l *login) connect() (*clientv3.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if l.client == nil {
		client, err := clientv3.New(l.cfg)
		if err != nil {
			return nil, err
		}
		l.client = client
	}
	return l.client, nil
}

func (l *login) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.client == nil {
		return nil
	}
	return l.client.Close()
}
