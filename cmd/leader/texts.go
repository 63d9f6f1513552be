package main

import (
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// Texts implements settings.Described: it says what each setting means.
func (*config) Texts() settings.Texts { return texts }

var texts = settings.Texts{
	"LEADER_COORDINATOR": {
		Meaning: `
			where elections are held, such as ` + coordinators.Forms + `.
			In this and every other URL, ?password_file=FILE or ?password_command=COMMAND say where the
			password is, and are read again for each new connection`,
	},
	"LEADER_STORES": {
		Meaning: `
			comma-separated URLs (` + stores.Forms + `) of guards, or of
			databases with the schema installed. A new leader raises the mark on every one before it starts the
			command. With none, the mark rises only when the command opens its first session under
			the token`,
	},
	"LEADER_SESSION_TIMEOUT": {
		Meaning: `
			the coordinator elects another leader when it has not heard from this one for so long.
			status, resign and the task commands that read a checkpoint wait as long for an answer`,
	},
	"LEADER_ON_DISCONNECT": {
		Meaning: `
			what happens to the command while the coordinator is out of reach: pause (SIGSTOP
			until it is back), continue, or stop. In each case leader ends the command before the
			session can expire. While leader itself is paused, only the fence protects the stores`,
	},
	"LEADER_GRACE": {
		Default: "a fifth of LEADER_SESSION_TIMEOUT",
		Meaning: `
			time between TERM and KILL for a command that has to stop. Less where the session could
			expire sooner. Use 1ms for next to none`,
	},
	"LEADER_RAISE_TIMEOUT": {
		Meaning: `
			how long one store may take to raise the mark and end older sessions before this
			candidate resigns and stands for election again`,
	},
	"LEADER_DRAIN_TIMEOUT": {
		Meaning: `
			how long the commands of leader work may go on after TERM or INT. Then they are ended as
			LEADER_GRACE says, and their jobs are given back; a second signal ends them at once. A
			service manager must wait for longer than both before it kills`,
	},
	"LEADER_JOURNAL": {
		Default: `
			the first postgres:// of LEADER_STORES, else the first redis://, else coordinator`,
		Meaning: `
			where tasks keep their checkpoints: postgres://... or redis[s]://..., prepared by guard
			install; or coordinator, next to the elections. Name the database
			itself: a guard admits only the leader, so standbys could not follow and leader task
			show could not read. A task file may name it, too (journal); this setting has
			precedence. Its role needs what guard install grants to GUARD_POSTGRES_LEADERS`,
	},
	"LEADER_REDIS": {
		Default: "the first redis:// of LEADER_STORES",
		Meaning: "where the redis steps of tasks run, under the token",
	},
	"LEADER_HOLDER": {
		Default: "host name:process id",
		Meaning: "name of this process in status and logs",
	},
	"LEADER_CARRY": {
		Default: "none",
		Meaning: `
			for programs that cannot present a token: postgres, redis or both, with a comma. leader run and
			leader agent listen on this machine, and put the token into what they pass on to the guard
			in LEADER_STORES. PGHOST, PGPORT, DATABASE_URL and REDIS_URL tell the command where: at an
			address that no other term has. On Linux leader run admits only processes of its command. For a
			program with a fixed address: postgres=127.0.0.1:5432, or redis=unix:/run/app/redis.sock`,
	},
	"LEADER_EXPORT": {
		Default: `
			RINGFENCE_TOKEN,PGOPTIONS, without what LEADER_CARRY makes unnecessary, and without PGOPTIONS if
			LEADER_STORES has no Postgres`,
		Meaning: `
			which variables hand the token to a command of leader run, task and work: RINGFENCE_TOKEN (with
			_RESOURCE and _HOLDER), PGOPTIONS, DATABASE_URL, or none. PGOPTIONS reaches every database
			of the command. DATABASE_URL has the postgres:// of LEADER_STORES with the token: use it if
			the command has other databases, too, behind a pooler that refuses PGOPTIONS`,
	},
	"LEADER_HTTP_LISTEN": {
		Default: "none",
		Meaning: `
			address of /metrics, /livez, /readyz and /readyz/leading of leader run, task and work, such
			as 0.0.0.0:9091; :9091 is 127.0.0.1:9091. leader serve has them at its own address`,
	},
	"LEADER_HTTP_TOKEN": {
		Meaning: `
			what clients of leader serve have to send: Authorization: Bearer TOKEN. Needed unless it
			listens on the loopback interface alone. /metrics needs it, too, with every command`,
	},
	"LEADER_LOG": {
		Meaning: `
			debug, info, warn or error. The log goes to stderr: text on a terminal, JSON elsewhere`,
	},
}
