"""What a leader does with redis-py. drivers_test.go says how it talks to the test."""
import os
import sys

import redis


def lead():
    return redis.Redis(
        host="localhost", port=int(os.environ["PORT"]), username="app", password="secret",
        ssl=True, ssl_ca_certs=os.environ["CA"], ssl_check_hostname=True,
        client_name=f"fence.{os.environ['RESOURCE']}.5", single_connection_client=True)


def say(what):
    print(what, flush=True)


leader = lead()
with leader.pipeline(transaction=True) as p:
    p.rpush("ledger:" + os.environ["RESOURCE"], "é", "two")
    p.execute()
leader.eval("return redis.call('rpush', KEYS[1], 'three')", 1, "ledger:" + os.environ["RESOURCE"])
say("wrote %d" % leader.llen("ledger:" + os.environ["RESOURCE"]))

sys.stdin.readline()  # a newer leader is there now
for attempt in "deposed", "refused":
    try:
        (leader if attempt == "deposed" else lead()).rpush("ledger:" + os.environ["RESOURCE"], "late")
    except redis.RedisError as e:
        say(f"{attempt} {str(e).split()[0]}")
