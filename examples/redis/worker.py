"""An attempt at a job that writes to Redis, with redis-py: worker.py ATTEMPT"""
import os
import sys

import redis

db = redis.Redis(port=int(os.environ.get("REDIS_PORT", "6379")), decode_responses=True)
attempt = sys.argv[1]

# These lines fence it.
token = db.fcall("ringfence_take", 0, "orders", "worker-" + attempt, attempt)


def fenced(*command):
    return db.fcall("ringfence_exec", 0, token, *command)


try:
    for n in range(100_000):
        fenced("RPUSH", "written", attempt)
except redis.ResponseError as e:  # STALETOKEN: a later attempt has it now
    print(e)
