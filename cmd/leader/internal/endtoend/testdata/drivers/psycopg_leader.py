"""What a leader does with psycopg. drivers_test.go says how it talks to the test."""
import os
import sys

import psycopg

host = f"host=localhost port={os.environ['PORT']} dbname=postgres sslmode=verify-full sslrootcert={os.environ['CA']}"
fence = f"-c fence.{os.environ['RESOURCE']}=5"


def lead():
    return psycopg.connect(f"{host} user=app password=secret", options=fence)


def say(what):
    print(what, flush=True)


def reason(e):
    """libpq has no code if a login fails, nor if it reads that the session has ended before it sends a statement."""
    for text in "stale token: 5 is older than the mark 6", "terminating connection":
        if text in str(e):
            return text.split(":")[0]
    return repr(e)


leader = lead()
with leader.transaction(), leader.cursor() as rows:
    rows.executemany("insert into ledger (token, note) values (%s, %s)", [(5, "é"), (5, "two")])
    with rows.copy("copy ledger (token, note) from stdin") as copy:
        copy.write_row((5, "three"))
with leader.cursor(name="batches") as rows:
    rows.itersize = 2
    say(f"wrote {len(list(rows.execute('select note from ledger where token = %s', [5])))}")
leader.rollback()
say("encrypted %s" % leader.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone())
leader.rollback()

sys.stdin.readline()  # a newer leader is there now
try:
    leader.execute("insert into ledger (token) values (5)")
except psycopg.Error as e:
    say("deposed " + reason(e))
try:
    lead()
except psycopg.OperationalError as e:
    say("refused " + reason(e))
