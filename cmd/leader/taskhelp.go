package main

const taskNames = `What ends in .yaml or .yml, or has a slash in it, is a FILE; anything else is the NAME of a task in the journal. A name
needs LEADER_JOURNAL, or its default: what a file says of its journal is not known then.
resume and restart need leadership: they stand for election, and give up after LEADER_SESSION_TIMEOUT if another leader does
not end.
`

const taskForm = `Start as many copies as you like: one leads and runs the steps, the others follow, and go on where it was when it falls.
leader exits when the task is done, whoever did it. The steps of SQL are in the database exactly once; commands are run at
least once, and again with the same key when a leader fell before their end was saved.

  task: settlement-${DATE}     the name; ${VAR} is the environment's, here only. Another name is another task
  resource: settlement         the election
  rounds: 1                    how often the steps are passed through, or: forever
  every: 10s                   the pause between rounds
  state: {batch: 500}          the state before the first step, a JSON object
  retry: {attempts: 3, backoff: 1s, most: 1m}    for steps without their own; without it a step is tried once
  changed: refuse              when the saved task has other steps: refuse, accept, restart, or map: {old: new}
  journal: postgres://…        see LEADER_JOURNAL; no passwords
  steps:
    - name: book
      sql: |                   or sql_file: PATH. One transaction with the checkpoint; needs a journal in Postgres
        insert into …
    - name: send
      run: ./send.sh           by /bin/sh -e, in the directory of the file, in a process group of its own
      unfinished: again        when a leader fell in the middle of it: again, stop, or ask
      ask: ./was-it-sent.sh    for ask: exit code 0 says that it did end, 1 to run it again, any other to stop
      timeout: 30s             any step may have one, and a retry of its own
    - name: count
      redis: [INCRBY, n, 10]   or a list of commands; in one script, under the token, where LEADER_REDIS says

State goes in and out as JSON. A command finds it on stdin and in the file RINGFENCE_STATE, and may write the file anew.
SQL finds it as current_setting('ringfence_task.state')::jsonb, beside ringfence_task.name and .key; when the last statement
returns one column called state, its one row is the new state. Commands also get RINGFENCE_KEY (the same for every
repetition of a step, and no other step's), _TASK, _RUN, _ROUND, _STEP, _RESOURCE, _TOKEN and _HOLDER, and PGOPTIONS with
the token. One that has to stop gets TERM, and KILL after LEADER_GRACE; LEADER_ON_DISCONNECT holds for it, too.

A step that has failed for good stops the task, and every copy exits: mend it, then leader task resume FILE.
`
