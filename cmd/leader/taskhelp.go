package main

const taskNameHelp = `.

An argument that ends in .yaml or .yml, or contains a slash, is a FILE;
anything else is the NAME of a task in the journal. With a name, the journal is LEADER_JOURNAL or
its default, since no file is read that could name another.
resume and restart need leadership: they stand for election, and give up after
LEADER_SESSION_TIMEOUT if the other leader does not resign.
`

const taskHelp = `Stand for election; as the leader, run the task in FILE from its checkpoint.

Start as many copies as you like: one leads and runs the steps, the others stand
by, and one of them continues at the checkpoint when the leader fails. leader exits when the task is
done, whichever copy finished it. SQL steps take effect exactly once; commands run at least once,
and again with the same key when a leader failed before their end was saved.

    task: settlement-${DATE}     the name; ${VAR} is from the environment, here only. Another name is
                                 another task
    resource: settlement         the election
    rounds: 1                    how often the steps are repeated, or: forever
    every: 10s                   the pause between rounds
    state: {batch: 500}          the state before the first step, a JSON object
    retry: {attempts: 3, backoff: 1s, most: 1m}    for steps without their own; default: one attempt
    changed: refuse              when the saved task has other steps: refuse, accept, restart,
                                 or map: {old: new}
    journal: postgres://…        see LEADER_JOURNAL; no passwords
    steps:
      - name: book
        sql: |                   or sql_file: PATH. In one transaction with the checkpoint; needs a
                                 journal in Postgres
          insert into …
      - name: send
        run: ./send.sh           by /bin/sh -e, in the file's directory, in its own process group
        unfinished: again        when a leader failed in the middle of it: again, stop, or ask
        ask: ./was-it-sent.sh    for ask: exit code 0: it did end; 1: run it again; any other: stop
        timeout: 30s             any step may have one, and its own retry
      - name: count
        redis: [INCRBY, n, 10]   or a list of commands; one script under the token, at LEADER_REDIS

State is a JSON object. A command reads it from stdin or from the file RINGFENCE_STATE, and may
rewrite the file. SQL reads it as current_setting('ringfence_task.state')::jsonb, next to
ringfence_task.name and .key; when the last statement returns one column called state, its one row
is the new state. Commands also get RINGFENCE_KEY (the same for every repetition of a step, and
different for every other step), _TASK, _RUN, _ROUND, _STEP, _RESOURCE, _TOKEN and _HOLDER, and
PGOPTIONS with the token (LEADER_EXPORT changes that). A command that has to stop gets TERM, and KILL after LEADER_GRACE;
LEADER_ON_DISCONNECT applies to it, too.

When a step has used up its attempts, the task is stopped and every copy exits: fix the cause, then
run leader task resume FILE.
`
