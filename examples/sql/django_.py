import os, sys, time
import django
from django.conf import settings

settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"],
    "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"], "DISABLE_SERVER_SIDE_CURSORS": True,
}})
django.setup()
from django.db import Error, connection, transaction

holder, attempt = sys.argv[1], int(sys.argv[2])


def transfer(wait=lambda: None):
    with transaction.atomic(), connection.cursor() as c:
        c.execute("set transaction isolation level " + os.environ["LEVEL"])
        c.execute("select ringfence.enter(%s)", [term[0]])  # fence
        wait()
        c.execute("insert into ledger values (%s)", [holder])


def pause():
    print("inside", flush=True)
    sys.stdin.readline()


term = (None, False)  # fence
while not term[1]:  # fence
    with connection.cursor() as c:
        c.execute("select pass, ready from ringfence.take('orders', %s, %s)", [holder, attempt])  # fence
        term = c.fetchone()  # fence
    time.sleep(0.01)
transfer()
print("wrote", flush=True)
for step in pause, lambda: None:
    try:
        transfer(step)
        print("STALE", flush=True)
    except Error as e:
        print("refused" if getattr(e.__cause__, "pgcode", None) == "RF001" else "ended", flush=True)
        connection.close()
