#!/usr/bin/env python3
"""Judges published histories of the chaos lab: python3 check.py FILE...

It does what history.md says, and shares no code with `lab check`. It prints the rules that a
history breaks. Exit code: 0 all accepted, 1 one is rejected, 2 one was not completed.
"""
import json
import sys
from collections import Counter, defaultdict, namedtuple
from itertools import count

NEVER = float("inf")
Term = namedtuple("Term", "resource issuer token")


class Event:
    """One line. A field that is missing is 0, "" or false."""
    backend = do = issuer = key = op = outcome = process = resource = start = state = store = text = ""
    carried = made = place = token = version = 0
    copied = sync = False
    header = {}

    def __init__(self, line):
        vars(self).update(json.loads(line))
        self.token, self.carried = int(self.token), int(self.carried)
        self.register = (self.store, self.resource)
        self.worker = self.process.split("/")[0]
        self.writes = self.kind == "evidence" or self.kind == "effect" and self.sync


class History:
    def __init__(self, lines):
        self.events = sorted(map(Event, lines), key=lambda e: e.at)
        self.header, self.ended = {}, False
        self.terms, self.ages, issuers = [], defaultdict(set), {}
        self.ops, self.changes, self.attempts, self.rows = {}, {}, {}, defaultdict(list)
        for e in self.events:
            if e.kind == "run":
                self.header = e.header
            elif e.kind == "end":
                self.ended = True
            elif e.kind == "term" and e.token:
                e.age = (issuers.setdefault(e.issuer, len(issuers)), e.token)
                self.terms.append(e)
                self.ages[e.token].add(e.age)
            elif e.kind == "invoke" and e.do not in ("submit", "cancel", "retry"):
                # An operation is its invoke, with what its return says.
                e.returned, e.outcome = NEVER, "unknown"
                (self.changes if e.do == "change" else self.ops)[e.op] = self.attempts[e.key, e.token] = e
            elif e.kind == "return" and (op := self.ops.get(e.op) or self.changes.get(e.op)):
                op.returned, op.outcome, op.made = e.at, e.outcome, e.made
            elif e.writes:
                self.rows[e.register].append(e)
        for op in self.ops.values():
            op.age = self.age_of(op)
        for rows in self.rows.values():
            rows.sort(key=lambda e: e.place)

    def age_of(self, op):
        """The age of the token of an operation."""
        ages = self.ages[op.token]
        if len(ages) == 1:
            return min(ages)
        mine = [t.age for t in self.terms if (t.token, t.worker) == (op.token, op.worker) and t.at <= op.at]
        return mine[-1] if mine else (0, op.token)

    def age_after(self, token, before):
        """The age of the token of a row or a mark, after another age was reached."""
        ages = sorted(self.ages[token])
        unnamed = (before[0] if token >= before[1] else 0, token)
        return next((age for age in ages if age >= before), ages[0] if ages else unnamed)


# What clients and stores say. Each of these yields the rules that the history breaks.

def order(h):
    """I1: ages never go down in the order of commits."""
    for rows in h.rows.values():
        differ = [row.carried if row.carried != row.token else 0 for row in rows]
        for tokens in ([row.token for row in rows], differ):
            newest = (0, 0)
            for row, token in zip(rows, tokens):
                op = h.ops.get(row.op) if row.op else h.attempts.get((row.key, row.token))
                if token:
                    age = op.age if op and op.token == token else h.age_after(token, newest)
                    if age < newest:
                        yield "I1"
                    newest = max(newest, age)
        if any(carried and row.token for row, carried in zip(rows, differ)):
            yield "I1"


def answers(h):
    """I2: nothing is accepted that was sent after a newer token was accepted. I1: so is no mark."""
    registers = {o.register for o in h.ops.values()}
    ok = [o for o in h.ops.values() if o.outcome == "ok"]
    accepted = [(o.returned, o.register, o.age) for o in ok]
    ready = [t for t in h.terms if t.state == "ready"]
    accepted += [(t.at, r, t.age) for t in ready for r in registers if r[1] == t.resource]
    accepted.sort(reverse=True)
    marks = [e for e in h.events if e.kind == "mark" and h.header.get("guarded")]
    newest = defaultdict(lambda: (0, 0))
    for e in sorted(ok + marks, key=lambda e: e.at):
        while accepted and accepted[-1][0] < e.at:
            _, register, age = accepted.pop()
            newest[register] = max(newest[register], age)
        known = newest[e.register]
        if e.kind == "mark" and h.age_after(e.token, known) < known:
            yield "I1"
        elif e.kind == "invoke" and e.age < known:
            yield "I2"


def presence(h):
    """I3: what was acknowledged is there, once; what was refused is not."""
    there = Counter()
    for row in (row for rows in h.rows.values() for row in rows if row.kind == "evidence"):
        op = h.ops.get(row.op)
        there[row.op] += 1
        sent = op and op.register == row.register and (op.token == row.token or 0 in (op.token, row.token))
        if not sent or op.outcome in ("stale", "refused", "failed") or there[row.op] > 1:
            yield "I3"
    lost = (o.do == "write" and o.outcome == "ok" and not there[o.op] for o in h.ops.values())
    if h.ended and not h.header.get("expect", {}).get("may_lose") and any(lost):
        yield "I3"


# What the models have.

def workers(h):
    """The rules about workers: elected, and mine."""
    won = set()
    for e in h.events:
        if e.kind == "term" and e.state in ("won", "ready") and not e.resource:
            won.add((e.worker, e.token))
        elif e.kind == "return" and e.do == "raise" and e.outcome == "ok" and not e.resource:
            if h.header.get("coordinator") != "sql" and (e.worker, e.token) not in won:
                yield "elected"
    made = [c for c in h.changes.values() if c.outcome == "ok"]
    has = {(c.key, c.made): c.text for c in made if c.made}
    for c in made:
        if c.state in ("running", "done") and has.get((c.key, c.version), "") not in ("", c.worker):
            yield "mine"


def fence(h):
    """The rules about Postgres: replays its steps in the order of commits."""
    steps = [e for e in h.events if e.store == "postgres" and (e.writes or e.kind in ("publish", "fence"))]
    if not any(e.kind == "fence" for e in steps):
        return
    run, complete = "", False
    marks, gates, records, highest, newest = {}, {}, {}, {}, {}
    gone, opened = set(), set()
    nth = defaultdict(count().__next__)  # term: its place in the order of first raises

    def older(a, b):
        return a.token < b.token if a.issuer == b.issuer else nth[a] < nth[b]

    def let_in(t):
        if not older(t, newest.get(t.resource, t)):
            newest[t.resource] = t

    def free(t, e, backend):
        """Whether t is the mark, and no other backend has a record of another term."""
        others = (b != backend and (on == "*" or on == t.resource and of != t) for (on, b), of in records.items())
        return marks.get(t.resource) == (t, e.start, False) and not any(others)

    def entered(t):
        return t in opened and not older(t, newest[t.resource])

    for e in sorted(steps, key=lambda e: (e.place, e.kind == "fence")):
        r, do, t = e.resource, e.do, Term(e.resource, e.issuer, e.token)
        if do in ("register", "attach", "complete", "incomplete") and e.start not in ("", run):
            run, records = e.start, {}
        if e.kind != "fence":
            record = records.get((r, e.backend))
            t = next((known for known in reversed(nth) if known[::2] == (r, e.token)), t)
            if record and older(record, newest.get(r, record)):
                yield "write"
            elif not record and e.backend in gone:
                yield "forget"
            elif not record and not entered(t):
                yield "enter"
        elif do == "raise":
            marks[r] = (t, e.start, e.copied)
            if not e.copied:
                last, highest[r] = highest.get(r, t), t
                if last.issuer == t.issuer and last.token > t.token:
                    yield "raise"
                nth[t]  # is the next number, unless t has one
        elif do == "register":
            if r != "*":
                if not complete or not free(t, e, e.backend):
                    yield "register"
                let_in(t)
            records[r, e.backend] = t
        elif do == "attach":
            if not entered(t):
                yield "enter"
            records[r, e.backend] = t
        elif do == "forget":
            records.pop((r, e.backend), None)
            gone.add(e.backend)
        elif do == "open" and not e.copied and gates.get(r) != (t, e.start):
            if not free(t, e, None):
                yield "open"
            gates[r] = (t, e.start)
            opened.add(t)
            let_in(t)
        elif do == "shut":
            gates.pop(r, None)
        elif do in ("complete", "incomplete"):
            complete = do == "complete" and not e.copied
        elif do == "empty":
            complete, records, marks, gates = False, {}, {}, {}


def judge(path):
    with open(path, encoding="utf-8") as lines:
        h = History(lines)
    rules = sorted({rule for part in (order, answers, presence, workers, fence) for rule in part(h)})
    if rules:
        return 1, "rejected: " + " ".join(rules)
    return (0, "accepted") if h.ended and h.header else (2, "not completed")


if __name__ == "__main__":
    verdicts = [(path, *judge(path)) for path in sys.argv[1:]]
    for path, _, verdict in verdicts:
        print(f"{path}: {verdict}")
    codes = {code for _, code, _ in verdicts}
    sys.exit(1 if 1 in codes else max(codes, default=2))
