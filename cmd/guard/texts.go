package main

import (
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// Texts implements settings.Described: it says what each setting means.
func (*config) Texts() settings.Texts { return texts }

var texts = settings.Texts{
	"GUARD_TLS_CERT": {Meaning: `
		file with the certificate that clients see, in PEM form, with its chain. Clients of all
		protocols may then use TLS. A new version takes effect without a restart. Unset: no TLS`},
	"GUARD_TLS_KEY": {Meaning: "file with the key of GUARD_TLS_CERT"},
	"GUARD_TLS_REQUIRE": {Meaning: "refuse clients that do not use TLS; those on a Unix socket need " +
		"none"},
	"GUARD_TLS_CLIENT_CA": {Meaning: `
		file with the authorities of clients' certificates. Unset: clients need no certificate`},
	"GUARD_TLS_CLIENT_AUTH": {Meaning: `
		what GUARD_TLS_CLIENT_CA asks of a client that uses TLS: verify-ca, a certificate of such
		an authority; verify-full, one whose common name is the role (in Redis, the user);
		optional, not required, but verified if sent`},
	"GUARD_PROXY_NETWORKS": {Meaning: `
		comma-separated networks, such as 10.1.0.0/16, of load balancers that name their client
		with the PROXY protocol, version 2 (HAProxy: send-proxy-v2). Every connection from these
		networks must start with a PROXY header. Unset: the address of a connection is the client's`},
	"GUARD_COORDINATOR": {Meaning: `
		where elections are held, such as ` + coordinators.Forms + `;
		with ?password_file= or ?password_command= for a password that may change. A token is then
		admitted only while its holder leads. Unset: the mark alone decides and every higher token
		raises it, which is weaker`},
	"GUARD_COORDINATOR_OUTAGE": {Meaning: `
		what happens to new sessions while the coordinator does not answer. refuse: none is
		admitted. keep: a token that this guard has verified before may open further sessions
		while the mark is its own. A leader that was deposed meanwhile could do so, too, until a
		guard that reaches the coordinator raises the mark`},
	"GUARD_ISSUER":    {Meaning: "name of the issuer of tokens when there is no coordinator"},
	"GUARD_RESOURCES": {Meaning: "comma-separated resources that clients may name. Unset: any"},
	"GUARD_HTTP_LISTEN": {Meaning: `
		address of the status page, /livez, /readyz and /metrics, such as 0.0.0.0:9090 or
		systemd:name. :9090 is 127.0.0.1:9090, or [::1]:9090 where there is only IPv6.
		Without a token, whoever reaches it can read resources, tokens, holders and client
		addresses. Unset: none`},
	"GUARD_HTTP_TOKEN": {Meaning: `
		what a request for the status page or /metrics has to bring: Authorization: Bearer TOKEN,
		or HTTP Basic with any user name and the token as the password, which a browser asks for.
		/livez and /readyz need none`},
	"GUARD_HTTP_TOKEN_FILE": {Meaning: "file with the token, in place of GUARD_HTTP_TOKEN. SIGHUP " +
		"has it read again"},
	"GUARD_HTTP_TLS_CERT": {Meaning: `
		file with the certificate for GUARD_HTTP_LISTEN, in PEM form, with its chain; it may be
		that of GUARD_TLS_CERT. A new version takes effect without a restart. Unset: no TLS`},
	"GUARD_HTTP_TLS_KEY": {Meaning: "file with the key of GUARD_HTTP_TLS_CERT"},
	"GUARD_MAX_CONNECTIONS": {Meaning: `
		most admitted sessions, for each protocol. Connections that are not admitted do not
		count`},
	"GUARD_MAX_UNADMITTED": {Meaning: `
		limit on clients that are still logging in or, in Redis, have no token; for each protocol,
		in addition to GUARD_MAX_CONNECTIONS. Four times as many queue. While one queues, the guard
		disconnects clients that have kept it waiting for more than a second, first those of the
		address that has most of them. Behind a load balancer all clients have one address`},
	"GUARD_MAX_LOGINS": {Meaning: `
		most concurrent logins at the server, in Redis also of clients without a token; the next
		ones wait in order. Keep it well below the number of the server's max_connections that is
		normally free; for Redis it is an eighth of maxclients at most. While one
		waits, logins that have kept the guard waiting for their client are closed in the same
		way`},
	"GUARD_LOGIN_TIMEOUT": {Meaning: `
		how long a client may take to log in, including time in the queue. A Redis client
		without a token has logged in with the first reply that is not an error`},
	"GUARD_ADMIT_TIMEOUT": {Meaning: `
		how long a whole admission may take: to identify the session, query the coordinator,
		raise the mark and wait for older sessions to end. After that the newcomer is refused`},
	"GUARD_DRAIN_DELAY": {Meaning: `
		how long the guard goes on serving after SIGTERM, with /readyz at 503: as long as a load
		balancer needs to notice. Then no new clients are accepted, and sessions end`},
	"GUARD_IDLE_TIMEOUT": {Meaning: `
		how long nothing may pass in an admitted session, in either direction, until the guard
		ends it (57P05; in Redis -ERR). 0: for ever. Open transactions count as in use, and so
		do a query that runs, BLPOP and subscriptions in Redis`},
	"GUARD_STALE_RECHECK": {Meaning: `
		how long a token that was refused as stale is refused again at once, without a login and
		without a question to coordinator and database. Then they are asked about it once more.
		At most 1m: a guard that has refused a token may notice an adoption so much later`},
	"GUARD_DRAIN_TIMEOUT": {Meaning: `
		how long open transactions may continue after SIGTERM and GUARD_DRAIN_DELAY. In Postgres,
		statements that still run are then ended at the server. A second signal ends the guard
		at once`},
	"GUARD_TCP_KEEPALIVE": {Meaning: `
		how long a client or a server may be silent, with no answer to TCP's probes, until its
		connection counts as broken`},
	"GUARD_TCP_USER_TIMEOUT": {Meaning: `
		how long bytes that were sent may stay unacknowledged until the connection counts as
		broken. 0: as long as the system tries, a quarter of an hour on Linux. A client that does
		not read for so long, such as psql with a pager, loses its session, too`},
	"GUARD_RELAY": {Meaning: `
		loops or goroutines: how sessions are relayed. Loops are the faster ones and need Linux;
		elsewhere each session has goroutines of its own in any case`},
	"GUARD_LOG": {Meaning: `
		debug, info, warn or error. The log goes to stderr: text on a terminal, JSON elsewhere`},
	"GUARD_SETTINGS_FILE": {Meaning: `
		file with further settings, one NAME=value in a line; a variable of the environment comes
		before it. SIGHUP has guard serve read it again: GUARD_LOG, GUARD_MAX_CONNECTIONS,
		GUARD_MAX_UNADMITTED, GUARD_MAX_LOGINS, GUARD_HTTP_TOKEN and the paths of certificates
		take effect at once, and the log names the other settings that need a restart`},
}
