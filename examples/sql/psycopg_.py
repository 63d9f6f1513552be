import os, sys, time
import psycopg

holder, attempt = sys.argv[1], int(sys.argv[2])


def connect():
    return psycopg.connect("", prepare_threshold=None)


def transfer(conn, wait=lambda: None):
    with conn.transaction():
        conn.execute("set transaction isolation level " + os.environ["LEVEL"])
        conn.execute("select ringfence.enter(%s)", [term[0]])  # fence
        wait()
        conn.execute("insert into ledger values (%s)", [holder])


def pause():
    print("inside", flush=True)
    sys.stdin.readline()


conn = connect()
conn.autocommit = True
term = (None, False)  # fence
while not term[1]:  # fence
    term = conn.execute("select pass, ready from ringfence.take('orders', %s, %s)", [holder, attempt]).fetchone()  # fence
    time.sleep(0.01)  # fence
transfer(conn)
print("wrote", flush=True)
for step in pause, lambda: None:
    try:
        if conn.closed or conn.broken:
            conn = connect()
        transfer(conn, step)
        print("STALE", flush=True)
    except psycopg.Error as e:
        print("refused" if e.sqlstate == "RF001" else "ended", flush=True)
