package main

import "github.com/ringfence/ringfence/internal/settings"

// Texts is settings.Described's: what -h says of each setting.
func (*config) Texts() settings.Texts { return texts }

var texts = settings.Texts{
	"GUARD_POSTGRES_LISTEN": {
		Meaning: `
			address to take Postgres clients on, such as :6432, or unix:/dir/.s.PGSQL.6432, a
			socket with mode 0666 that is removed at the end. Unset: no Postgres`,
	},
	"GUARD_POSTGRES_UPSTREAM": {
		Meaning: `
			URL of the Postgres server behind the guard, postgres://guard@host:5432/database. The
			guard's control connections log in with it; clients' own logins are relayed to the
			same host`,
	},
	"GUARD_POSTGRES_ADMIN": {
		Default: "GUARD_POSTGRES_UPSTREAM",
		Meaning: "URL of a role that may make the schema; used by guard install only",
	},
	"GUARD_POSTGRES_LEADERS": {
		Meaning: `
			roles of programs that keep checkpoints of tasks in the database, with commas between;
			guard install lets them. Used by guard install only`,
	},
	"GUARD_POSTGRES_ALLOW_PREPARED": {
		Meaning: `
			serve although max_prepared_transactions is above 0. A prepared transaction outlives
			its session, so a deposed leader's could still be committed`,
	},
	"GUARD_REDIS_LISTEN": {
		Meaning: `
			address to take Redis clients on, such as :7379, or unix:/path. Unset: no Redis`,
	},
	"GUARD_REDIS_UPSTREAM": {
		Meaning: `
			URL of the Redis server behind the guard, redis://guard@host:6379/0. Marks live in
			database 0, whatever number it names: sessions can select any`,
	},
	"GUARD_REDIS_IDLE_TIMEOUT": {
		Meaning: `
			how long a Redis client without a token may send nothing. Each command renews it`,
	},
	"GUARD_COORDINATOR": {
		Meaning: `
			where elections are held, such as zk://host1:2181,host2:2181/root. A token is then
			admitted only while its holder leads. Unset: the mark alone decides and every higher
			token raises it, which is weaker`,
	},
	"GUARD_ISSUER": {
		Meaning: "name of the issuer of tokens when there is no coordinator to ask",
	},
	"GUARD_RESOURCES": {
		Meaning: "the only resources that clients may name, with commas between. Unset: any",
	},
	"GUARD_UNFENCED": {
		Meaning: `
			what becomes of a session without a token: refuse. (read-only is not built yet)`,
	},
	"GUARD_HTTP_LISTEN": {
		Meaning: "address of /livez, /readyz and /metrics, such as 127.0.0.1:9090. Unset: none",
	},
	"GUARD_MAX_CONNECTIONS": {
		Meaning: `
			admitted sessions at once, for each protocol. What is not admitted never takes their
			place`,
	},
	"GUARD_MAX_UNADMITTED": {
		Meaning: `
			connections at once that are not admitted, besides those, for each protocol: half
			open, logging in, Redis clients without a token. Four times as many wait for room.
			While one waits, connections that have kept the guard waiting for their client for
			more than a second are ended, first those of the client address that has most of them.
			Behind a balancer all clients have one address`,
	},
	"GUARD_MAX_LOGINS": {
		Meaning: `
			Postgres logins under way at the server at once; the next ones wait in order. Keep it
			well below the server's max_connections, less what is used in normal times. While one
			waits, logins that have kept the guard waiting for their client are ended in the same
			way`,
	},
	"GUARD_LOGIN_TIMEOUT": {
		Meaning: `
			how long a client may take to log in, waits for room included. A Redis client without
			a token has logged in with the first answer that is no error`,
	},
	"GUARD_ADMIT_TIMEOUT": {
		Meaning: `
			how long one admission may take as a whole: to identify the session, ask the
			coordinator, raise the mark and see older sessions end. After that the newcomer is
			refused`,
	},
	"GUARD_DRAIN_TIMEOUT": {
		Meaning: `
			how long open transactions may go on after SIGTERM. A second signal ends the guard at
			once`,
	},
	"GUARD_LOG": {
		Meaning: `
			debug, info, warn or error. The log goes to stderr: text on a terminal, JSON elsewhere`,
	},
}
