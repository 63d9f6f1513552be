package redismarks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/ringfence/ringfence/internal/network/password"
)

const (
	askTime = time.Second            // how long a Sentinel may take to answer
	recent  = 400 * time.Millisecond // how long an answer is not asked for again
	stray   = 100 * time.Millisecond // how long the others are waited for after most have answered

	// doubtTime is how long no Sentinel must have named the primary before one of an older
	// configuration counts, which most of them must name. One that has not heard of a failover yet, as
	// in the first two seconds, or for as long as it is cut off, names the former primary.
	doubtTime = 3 * time.Second
)

// sentinels say which server is the primary ("Guidelines for Redis clients with support for Redis
// Sentinel"). Every dial asks all of them: the configuration with the highest epoch counts. When
// they name another server, the driver's connections to the one before are closed, and with them
// the Watch of the guard's sessions there: it may not know that it was replaced, and goes on for
// some seconds.
type sentinels struct {
	name  string
	each  []*driver.Options
	limit time.Duration        // of one question
	dial  dialing              // connects to the servers
	moved func(address string) // the primary is another one now, also at first; may be nil

	turn chan struct{} // holds a value while somebody asks

	mu    sync.Mutex
	now   named
	asked time.Time
	conns map[*sentConn]bool
}

// named is the primary that a Sentinel names.
type named struct {
	address string
	epoch   int64     // of the configuration, which each failover raises
	at      time.Time // when a Sentinel named it last
}

type dialing func(ctx context.Context, network, address string) (net.Conn, error)

// sentConn is a connection to a server that Sentinels have named.
type sentConn struct {
	net.Conn
	of      *sentinels
	address string
}

// Close closes the connection.
func (c *sentConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// connect dials the primary. The address of a URL with Sentinels is none.
func (s *sentinels) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	address, err := s.primary(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &sentConn{conn, s, address}
	s.mu.Lock()
	same := s.now.address == address
	s.conns[c] = true
	s.mu.Unlock()
	if !same {
		_ = c.Close()
		return nil, fmt.Errorf("%s is no longer the primary %s", address, s.name)
	}
	return c, nil
}

// primary returns the address of the primary. It asks, unless somebody has just done so. While no
// Sentinel answers, the last one remains.
func (s *sentinels) primary(ctx context.Context) (string, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if last, asked := s.last(); last != "" && time.Since(asked) < recent {
		return last, nil
	}
	best, most, err := s.ask(ctx)
	if err == nil {
		return s.heard(best, most), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.address == "" || ctx.Err() != nil {
		return "", err
	}
	s.asked = time.Now()
	return s.now.address, nil
}

func (s *sentinels) last() (address string, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.address, s.asked
}

// heard decides between the primary and an answer, and returns who is the primary. most says
// whether most of the Sentinels have answered.
func (s *sentinels) heard(best named, most bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
	before := s.now
	if best.epoch < before.epoch && (!most || best.at.Sub(before.at) < doubtTime) {
		return before.address
	}
	if s.now = best; best.address == before.address {
		return best.address
	}
	for c := range s.conns {
		if c.address != best.address {
			_ = c.Conn.Close()
		}
	}
	if s.moved != nil {
		s.moved(best.address)
	}
	return best.address
}

// follow asks as soon as a Sentinel publishes a change, until ctx ends.
func (s *sentinels) follow(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, o := range s.each {
		all.Go(func() {
			own := *o
			c := driver.NewSentinelClient(&own)
			defer c.Close()
			news := c.Subscribe(ctx, "+switch-master")
			defer news.Close()
			for changes := news.Channel(); ; {
				select {
				case <-changes:
					s.again(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// again asks although somebody has just done so.
func (s *sentinels) again(ctx context.Context) {
	s.mu.Lock()
	s.asked = time.Time{}
	s.mu.Unlock()
	_, _ = s.primary(ctx)
}

// ask asks all Sentinels at once. It returns when all have answered, or soon after most have.
func (s *sentinels) ask(ctx context.Context) (best named, most bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type answer struct {
		named
		err error
	}
	answers := make(chan answer, len(s.each))
	for _, o := range s.each {
		asking.Go(func() {
			n, err := askOne(ctx, o, s.name)
			answers <- answer{n, err}
		})
	}
	var failed failures
	var enough <-chan time.Time
	for got := 0; len(failed)+got < len(s.each); {
		select {
		case a := <-answers:
			if a.err != nil {
				failed = append(failed, a.err)
				continue
			}
			if got++; best.address == "" || a.epoch > best.epoch {
				best = a.named
			}
			if most = got > len(s.each)/2; most && enough == nil {
				enough = time.After(stray)
			}
		case <-enough:
			return best, most, nil
		}
	}
	if best.address == "" {
		err = fmt.Errorf("no Sentinel names the primary %s: %w", s.name, failed)
	}
	return best, most, err
}

// failures are those of several Sentinels, in one line.
type failures []error

func (f failures) Error() string {
	var texts []string
	for _, err := range f {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (f failures) Unwrap() []error { return f }

// askOne asks one Sentinel, on a connection of its own.
func askOne(ctx context.Context, o *driver.Options, name string) (named, error) {
	own := *o // the driver changes it
	c := driver.NewSentinelClient(&own)
	defer c.Close()
	// The driver would wait for an answer until its own timeout.
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	m, err := c.Master(ctx, name).Result()
	if err != nil {
		return named{}, fmt.Errorf("%s: %w", o.Addr, err)
	}
	epoch, _ := strconv.ParseInt(m["config-epoch"], 10, 64)
	return named{net.JoinHostPort(m["ip"], m["port"]), epoch, time.Now()}, nil
}

// The schemes of URLs.
const (
	sentinelScheme    = "redis+sentinel"
	sentinelTLSScheme = "rediss+sentinel"
	sentinelPort      = "26379"
	sentinelOption    = "sentinel_" // begins the options of a URL that are about Sentinels
)

// noHost stands for the server in the driver's options until Sentinels have named it.
const noHost = "sentinel.invalid"

// Schemes are those of the URLs of a server.
var Schemes = []string{"redis", "rediss", sentinelScheme, sentinelTLSScheme}

// cutSentinels takes the Sentinels out of a URL redis+sentinel://user:password@host,host/name/db,
// and returns the URL of a server for the driver. It returns no Sentinels for any other URL.
func cutSentinels(address string) (rest string, hosts []string, name string, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != sentinelScheme && scheme != sentinelTLSScheme {
		return address, nil, "", nil
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user, list := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, list = authority[:at+1], authority[at+1:]
	}
	name, db, _ := strings.Cut(path, "/")
	if name, err = url.PathUnescape(name); err != nil || name == "" {
		return "", nil, "", errors.New("the URL of Sentinels names no primary: " +
			"write redis+sentinel://host1,host2,host3/NAME")
	}
	for host := range strings.SplitSeq(list, ",") {
		if host == "" {
			return "", nil, "", errors.New("a host in the URL of Sentinels is empty")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), sentinelPort)
		}
		hosts = append(hosts, host)
	}
	plain, _, _ := strings.Cut(scheme, "+")
	rest = plain + "://" + user + noHost + "/" + cmp.Or(db, "0")
	if query != "" {
		rest += "?" + query
	}
	return rest, hosts, name, nil
}

// newSentinels returns those of a server. opt are the driver's options for the server, and options
// those of the URL that are about Sentinels.
func newSentinels(
	hosts []string, name string, opt *driver.Options, options url.Values,
) (*sentinels, error) {
	source, err := password.Cut(options)
	if err != nil {
		return nil, fmt.Errorf("of Sentinels: %w", err)
	}
	user, present := options.Get("user"), options.Get("password")
	options.Del("user")
	options.Del("password")
	for option := range options {
		return nil, fmt.Errorf("there is no option %s%s", sentinelOption, option)
	}
	s := &sentinels{
		name: name, limit: askTime, turn: make(chan struct{}, 1), conns: make(map[*sentConn]bool),
	}
	for _, host := range hosts {
		o := &driver.Options{
			Addr: host, Username: user, Password: present, Protocol: 2, DisableIdentity: true,
			PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DialTimeout: askTime,
			ReadTimeout: askTime, WriteTimeout: askTime, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{
				Mode: maintnotifications.ModeDisabled,
			},
		}
		if source != nil {
			o.CredentialsProviderContext = credentials(user, source)
		}
		if opt.TLSConfig != nil {
			o.TLSConfig = opt.TLSConfig.Clone()
			o.TLSConfig.ServerName, _, _ = net.SplitHostPort(host)
		}
		s.each = append(s.each, o)
	}
	return s, nil
}
