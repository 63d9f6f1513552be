"""Celery tasks whose attempts are fenced: docs/queues.md."""
import hashlib
import os
import time
import uuid

import celery
import psycopg
from celery.exceptions import Ignore


def connect():
    return psycopg.connect(os.environ["DATABASE_URL"], prepare_threshold=None)  # or a connection of your pool


class Fenced(celery.Task):
    """Takes a token for each attempt. Once another attempt has one, self.transaction() is refused in this one."""

    abstract = True
    acks_late = True  # or the message is gone with the worker

    def __call__(self, *args, **kwargs):
        self.request.fence = None
        try:
            self.request.fence = self.take()
            return self.run(*args, **kwargs)
        except Exception as e:
            refusal = self.refusal(e)
            if not refusal:
                raise
            print(f"{self.request.id} has another attempt: {refusal}", flush=True)
            raise Ignore() from e  # the result is the other attempt's

    def transaction(self):
        """with self.transaction() as conn: a connection in a transaction that is fenced, and committed at the end."""
        conn = connect()
        try:
            conn.execute("select ringfence.enter(%s)", [self.request.fence])
        except BaseException:
            conn.close()
            raise
        return conn

    def attempt(self):
        """What the attempt leads, and a number that puts the attempts in order; None: the last one to begin leads."""
        resource = "celery_" + hashlib.sha256(self.request.id.encode()).hexdigest()[:32]
        return resource, 2 * self.request.retries + bool(self.request.delivery_info.get("redelivered"))

    def take(self):
        resource, number = self.attempt()
        try:
            return take(resource, number)
        except psycopg.Error as e:
            if e.sqlstate == "RF001" and self.request.delivery_info.get("redelivered"):
                return take(resource, None)  # Celery does not number redeliveries: the last one to begin leads
            raise

    def refusal(self, e):
        """The fence's own error. A take-over breaks the connection of a transaction that it ends: trying again tells."""
        try:
            if self.request.fence and getattr(e, "sqlstate", None) != "RF001":
                self.transaction().close()
        except psycopg.Error as again:
            e = again
        return e if getattr(e, "sqlstate", None) == "RF001" else None


def take(resource, number):
    holder = str(uuid.uuid4())
    with connect() as conn:
        conn.autocommit = True
        while True:
            token, ready, refused = conn.execute(
                "select pass, ready, refused from ringfence.take(%s, %s, %s)", [resource, holder, number]).fetchone()
            if refused:
                raise RuntimeError(refused)
            if ready:
                return token
            time.sleep(0.01)
