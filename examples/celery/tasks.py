import os

import celery

from fenced import Fenced

app = celery.Celery("tasks", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
app.conf.broker_transport_options = {"visibility_timeout": int(os.environ.get("VISIBILITY_TIMEOUT", 3600))}
app.conf.worker_prefetch_multiplier = 1


@app.task(base=Fenced, bind=True)
def book(self, merchant, lines):
    """Books lines, each in a transaction of its own, from where the attempt before has stopped."""
    with self.transaction() as conn:
        [booked] = conn.execute("select count(*) from ledger where merchant = %s", [merchant]).fetchone()
    for line in range(booked, lines):
        with self.transaction() as conn:
            conn.execute("insert into ledger (merchant, line, worker) values (%s, %s, %s)", [merchant, line, os.environ["WORKER"]])
    return os.environ["WORKER"]
