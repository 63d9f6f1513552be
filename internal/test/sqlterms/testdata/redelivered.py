import psycopg, celery
from fenced import Fenced


class Task(Fenced):
    name = "task"


task = celery.Celery("test").register_task(Task())


def deliver(redelivered, retries=0):
    task.push_request(id="x", retries=retries, delivery_info={"redelivered": redelivered})
    task.request.fence = task.take()


def refused(what, *args):
    try:
        what(*args)
        return False
    except psycopg.Error as e:
        return e.sqlstate == "RF001"


deliver(True)
first = task.request.fence
deliver(True)
task.transaction().close()
assert refused(deliver, False), "the first delivery, which begins late, deposes a redelivery"
task.push_request(fence=first)
assert refused(task.transaction), "the first redelivery writes beside the second one"
deliver(False, retries=1)
task.transaction().close()
print("done")
