package main

import "github.com/ringfence/ringfence/internal/settings"

// Texts is settings.Described's: what -h says of each setting.
func (*config) Texts() settings.Texts { return texts }

var texts = settings.Texts{
	"LEADER_COORDINATOR": {
		Meaning: "where elections are held, such as zk://host1:2181,host2:2181/root",
	},
	"LEADER_STORES": {
		Meaning: `
			URLs (postgres://..., redis://...) with commas between, of guards or of databases with
			the schema installed. A new leader raises the mark on every one before the command is
			started. With none, the mark rises only when the command opens its first session under
			the token`,
	},
	"LEADER_SESSION_TIMEOUT": {
		Meaning: `
			after so long without a word from this leader the coordinator lets another one in. The
			commands that only ask give up after as long`,
	},
	"LEADER_ON_DISCONNECT": {
		Meaning: `
			what happens to the command while the coordinator is out of reach: pause (SIGSTOP
			until it is back), continue, or stop. Whichever it is, the command is ended before the
			session can expire; only when leader itself is paused for as long, the fence alone
			holds`,
	},
	"LEADER_GRACE": {
		Default: "a fifth of LEADER_SESSION_TIMEOUT",
		Meaning: `
			how long a command that has to stop has between TERM and KILL. Less where the session
			could expire sooner; 1ms for next to none`,
	},
	"LEADER_RAISE_TIMEOUT": {
		Meaning: `
			how long one store may take to raise the mark and end older sessions before this
			candidate steps back and stands again`,
	},
	"LEADER_JOURNAL": {
		Default: `
			the first postgres:// of LEADER_STORES, else the first redis://, else
			LEADER_COORDINATOR`,
		Meaning: `
			where tasks keep their checkpoints: postgres://..., redis://... or zk://..., with what
			guard install makes. Name the database itself: a guard lets nobody in who does not
			lead, so standbys could not follow and leader task show could not read. A task file
			may name it, too (journal); this comes first. Its role needs what guard install grants
			to GUARD_POSTGRES_LEADERS`,
	},
	"LEADER_REDIS": {
		Default: "the first redis:// of LEADER_STORES",
		Meaning: "where the redis steps of tasks are run, under the token",
	},
	"LEADER_HOLDER": {
		Default: "host name:process id",
		Meaning: "who this is, for people who look at status and logs",
	},
	"LEADER_LOG": {
		Meaning: `
			debug, info, warn or error. The log goes to stderr: text on a terminal, JSON elsewhere`,
	},
}
