"""The same before Redis 7.0, which has no functions: worker_before_7.py ATTEMPT"""
import os
import pathlib
import sys

import redis

db = redis.Redis(port=int(os.environ.get("REDIS_PORT", "6379")), decode_responses=True)
attempt = sys.argv[1]
text = pathlib.Path(__file__).parents[2] / "docs" / "ringfence.lua"

# These lines fence it. The driver calls the script by EVALSHA, and loads it where it is missing.
ringfence = db.register_script(text.read_text())
token = ringfence(args=["ringfence_take", "orders", "worker-" + attempt, attempt])


def fenced(*command):
    return ringfence(args=["ringfence_exec", token, *command])


try:
    for n in range(100_000):
        fenced("RPUSH", "written", attempt)
except redis.ResponseError as e:  # STALETOKEN: a later attempt has it now
    print(e)
