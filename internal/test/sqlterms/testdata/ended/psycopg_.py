import os, sys
import psycopg


def attempt(pause):
    with psycopg.connect("", prepare_threshold=None, autocommit=bool(os.environ["STATEMENT"])) as c:
        if os.environ["STATEMENT"]:
            return c.execute(os.environ["STATEMENT"])
        c.execute("select ringfence.enter(%s)", [os.environ["PASS"]])
        if pause:
            print("inside", flush=True)
            sys.stdin.readline()
        c.execute("insert into ledger values ('late')")


for pause in True, False:
    try:
        attempt(pause)
        print("STALE", flush=True)
    except psycopg.Error as e:
        print(e.sqlstate, type(e).__name__ + ":", str(e).splitlines()[0], flush=True)
