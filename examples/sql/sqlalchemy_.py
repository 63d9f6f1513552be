import os, sys, time
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError

holder, attempt = sys.argv[1], int(sys.argv[2])
engine = create_engine("postgresql://", isolation_level=os.environ["LEVEL"].upper(), pool_pre_ping=True)
calls = create_engine("postgresql://", isolation_level="AUTOCOMMIT")
term = (None, False)


@event.listens_for(engine, "begin")  # fence
def enter(conn):  # fence
    conn.exec_driver_sql("select ringfence.enter(%s)", (term[0],))  # fence


def transfer(wait=lambda: None):
    with engine.begin() as conn:
        wait()
        conn.execute(text("insert into ledger values (:h)"), {"h": holder})


def pause():
    print("inside", flush=True)
    sys.stdin.readline()


with calls.connect() as conn:
    while not term[1]:  # fence
        term = conn.execute(text("select pass, ready from ringfence.take('orders', :h, :a)"), {"h": holder, "a": attempt}).fetchone()  # fence
        time.sleep(0.01)
transfer()
print("wrote", flush=True)
for step in pause, lambda: None:
    try:
        transfer(step)
        print("STALE", flush=True)
    except DBAPIError as e:
        print("refused" if e.orig.pgcode == "RF001" else "ended", flush=True)
