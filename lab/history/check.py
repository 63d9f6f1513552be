#!/usr/bin/env python3
"""Judges published histories of the chaos lab: python3 check.py FILE...

It does what history.md says, and shares no code with `lab check`. It prints the rules that a
history breaks. Exit code: 0 all accepted, 1 one is rejected, 2 one was not completed.
"""
import json
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate

NEVER = float("inf")
STARTS = {"register", "attach", "complete", "incomplete"}


def load(path):
    with open(path, encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    for e in events:
        for field in ("token", "carried"):
            e[field] = int(e.get(field, 0))
        for field in ("store", "resource", "issuer", "backend", "start", "process", "op", "do", "text", "key"):
            e.setdefault(field, "")
        e["register"] = (e["store"], e["resource"])
        e["worker"] = e["process"].split("/")[0]
    return sorted(events, key=lambda e: e["at"])


class History:
    def __init__(self, events):
        self.events, self.broken = events, Counter()
        self.header = next((e.get("header") or {} for e in events if e["kind"] == "run"), {})
        self.ended = any(e["kind"] == "end" for e in events)
        self.read_terms()
        self.read_ops()
        self.rows = defaultdict(list)
        for e in sorted((e for e in events if "place" in e), key=lambda e: e["place"]):
            if e["kind"] == "evidence" or e["kind"] == "effect" and e.get("sync"):
                self.rows[e["register"]].append(e)

    def breaks(self, rule):
        self.broken[rule] += 1

    # Tokens, as section "Comparing tokens" has it.

    def read_terms(self):
        self.terms, self.ages, epochs = [], defaultdict(set), {}
        for e in self.events:
            if e["kind"] == "term" and e["token"]:
                epoch = epochs.setdefault(e["issuer"], len(epochs))
                e["age"] = (epoch, e["token"])
                self.terms.append(e)
                self.ages[e["token"]].add(e["age"])

    def age_of(self, worker, token, at):
        ages = self.ages[token]
        if len(ages) == 1:
            return next(iter(ages))
        mine = [t["age"] for t in self.terms if t["token"] == token and t["worker"] == worker and t["at"] <= at]
        return mine[-1] if mine else (0, token)

    def age_after(self, token, before):
        ages = sorted(self.ages[token])
        last = (before[0], token) if token >= before[1] else (0, token)
        return next((age for age in ages if age >= before), ages[0] if ages else last)

    def read_ops(self):
        self.ops, self.changes, self.attempts = {}, {}, {}
        for e in self.events:
            if e["do"] in ("submit", "cancel", "retry"):
                continue
            ops = self.changes if e["do"] == "change" else self.ops
            if e["kind"] == "invoke":
                ops[e["op"]] = dict(e, returned=NEVER, outcome="unknown", has=e["text"])
                ops[e["op"]]["age"] = self.age_of(e["worker"], e["token"], e["at"])
                self.attempts[e["key"], e["token"]] = ops[e["op"]]
            elif e["kind"] == "return" and e["op"] in ops:
                ops[e["op"]].update(returned=e["at"], outcome=e["outcome"], made=e.get("made"))

    # What clients and stores say.

    def judge_order(self):
        """I1: tokens never go down in the order of commits."""
        for rows in self.rows.values():
            for field in ("token", "carried"):
                newest = (0, 0)
                for row in rows:
                    token = row[field] if field == "token" or row["carried"] != row["token"] else 0
                    if not token:
                        continue
                    op = self.ops.get(row["op"]) if row["op"] else self.attempts.get((row["key"], row["token"]))
                    age = op["age"] if op and op["token"] == token else self.age_after(token, newest)
                    if age < newest:
                        self.breaks("I1")
                    newest = max(newest, age)
            self.broken["I1"] += sum(1 for r in rows if r["carried"] and r["token"] and r["carried"] != r["token"])

    def judge_answers(self):
        """I2: nothing is accepted that was sent after a newer token was accepted. I1: so is no mark."""
        accepted = defaultdict(list)
        for o in self.ops.values():
            if o["outcome"] == "ok":
                accepted[o["register"]].append((o["returned"], o["age"]))
        for t in (t for t in self.terms if t["state"] == "ready"):
            for register in {o["register"] for o in self.ops.values() if o["resource"] == t["resource"]}:
                accepted[register].append((t["at"], t["age"]))
        until = {}
        for register, all_of in accepted.items():
            all_of.sort()
            until[register] = [at for at, _ in all_of], list(accumulate((age for _, age in all_of), max))

        def newest(register, at):
            times, ages = until.get(register, ([], []))
            n = bisect_left(times, at)
            return ages[n - 1] if n else (0, 0)

        for o in self.ops.values():
            if o["outcome"] == "ok" and newest(o["register"], o["at"]) > o["age"]:
                self.breaks("I2")
        for e in self.events:
            known = newest(e["register"], e["at"])
            if e["kind"] == "mark" and self.header.get("guarded") and self.age_after(e["token"], known) < known:
                self.breaks("I1")

    def judge_presence(self):
        """I3: what was acknowledged is there, once; what was refused is not."""
        there = Counter()
        for register, rows in self.rows.items():
            for row in (r for r in rows if r["kind"] == "evidence"):
                there[row["op"]] += 1
                op = self.ops.get(row["op"])
                if (not op or op["register"] != register or there[row["op"]] > 1
                        or op["outcome"] in ("stale", "refused", "failed")
                        or row["token"] and op["token"] and row["token"] != op["token"]):
                    self.breaks("I3")
        if self.ended and not self.header.get("expect", {}).get("may_lose"):
            self.broken["I3"] += sum(1 for o in self.ops.values()
                                     if o["do"] == "write" and o["outcome"] == "ok" and not there[o["op"]])

    # What the models have.

    def judge_workers(self):
        won, by_sql = set(), self.header.get("coordinator") == "sql"
        for e in self.events:
            if e["kind"] == "term" and not e["resource"] and e["state"] in ("won", "ready"):
                won.add((e["worker"], e["token"]))
            raised = e["kind"] == "return" and e["do"] == "raise" and e["outcome"] == "ok"
            if raised and not e["resource"] and not by_sql and (e["worker"], e["token"]) not in won:
                self.breaks("elected")
        made = [o for o in self.changes.values() if o["outcome"] == "ok"]
        has = {(o["key"], o["made"]): o["has"] for o in made if o["made"]}
        for o in made:
            owner = has.get((o["key"], o.get("version", 0)))
            if owner and o["state"] in ("running", "done") and owner != o["worker"]:
                self.breaks("mine")

    def judge_fence(self):
        """Replays the steps of Postgres in the order of its commits."""
        wrote = ("evidence", "publish")
        steps = [e for e in self.events if e["store"] == "postgres" and "place" in e and (
            e["kind"] == "fence" or e["kind"] in wrote or e["kind"] == "effect" and e.get("sync"))]
        if not any(e["kind"] == "fence" for e in steps):
            return
        run, complete = "", False
        marks, gates, records, highest, newest = {}, {}, {}, {}, {}
        gone, opened, first = set(), set(), []

        def older(a, b):
            if a[0] == b[0]:
                return a[1] < b[1]
            return b in first and (a not in first or first.index(a) < first.index(b))

        def let_in(r, t):
            if r not in newest or older(newest[r], t):
                newest[r] = t

        def others(r, backend, t):
            return any(b != backend and (on == "*" or on == r and of[:2] != t[:2]) for (on, b), of in records.items())

        def entered(e, t):
            if (e["resource"], t) not in opened or older(t, newest.get(e["resource"], t)):
                self.breaks("enter")

        for e in sorted(steps, key=lambda e: (e["place"], e["kind"] == "fence")):
            r, do, copied = e["resource"], e["do"], e.get("copied", False)
            t = (e["issuer"], e["token"], r)
            if e["kind"] == "fence" and do in STARTS and e["start"] and e["start"] != run:
                run, records = e["start"], {}
            if e["kind"] != "fence":
                t = records.get((r, e["backend"]))
                if t:
                    if older(t, newest.get(r, t)):
                        self.breaks("write")
                elif e["backend"] in gone:
                    self.breaks("forget")
                else:
                    known = [f for f in first if f[1] == e["token"] and f[2] == r]
                    entered(e, known[-1] if known else ("", e["token"], r))
            elif do == "raise":
                marks[r] = (t, e["start"], copied)
                if not copied:
                    if r in highest and highest[r][0] == t[0] and highest[r][1] > t[1]:
                        self.breaks("raise")
                    highest[r] = t
                    if t not in first:
                        first.append(t)
            elif do == "register":
                if r != "*":
                    if marks.get(r) != (t, e["start"], False) or not complete or others(r, e["backend"], t):
                        self.breaks("register")
                    let_in(r, t)
                records[r, e["backend"]] = t
            elif do == "attach":
                entered(e, t)
                records[r, e["backend"]] = t
            elif do == "forget":
                records.pop((r, e["backend"]), None)
                gone.add(e["backend"])
            elif do == "open" and not copied and gates.get(r) != (t, e["start"]):
                if marks.get(r) != (t, e["start"], False) or others(r, "", t):
                    self.breaks("open")
                gates[r] = (t, e["start"])
                opened.add((r, t))
                let_in(r, t)
            elif do == "shut":
                gates.pop(r, None)
            elif do in ("complete", "incomplete"):
                complete = do == "complete" and not copied
            elif do == "empty":
                complete, records, marks, gates = False, {}, {}, {}


def judge(path):
    h = History(load(path))
    for part in (h.judge_order, h.judge_answers, h.judge_presence, h.judge_workers, h.judge_fence):
        part()
    rules = sorted(rule for rule, n in h.broken.items() if n)
    if rules:
        return 1, "rejected: " + " ".join(rules)
    return (0, "accepted") if h.ended and h.header else (2, "not completed")


if __name__ == "__main__":
    verdicts = [(path, *judge(path)) for path in sys.argv[1:]]
    for path, _, verdict in verdicts:
        print(f"{path}: {verdict}")
    codes = {code for _, code, _ in verdicts}
    sys.exit(1 if 1 in codes else max(codes, default=2))
