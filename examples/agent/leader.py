import json, os, psycopg2, urllib.request

term = urllib.request.Request(os.environ["AGENT"] + "/v1/terms", b'{"resource": "orders", "holder": "python"}', {
    "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["LEADER_HTTP_TOKEN"]})
for event in map(json.loads, urllib.request.urlopen(term)):
    print(event["event"], event.get("cause", ""), flush=True)
    if event["event"] == "leading":
        guarded = psycopg2.connect(os.environ["GUARDED"], options=event["carry"]["PGOPTIONS"])
        direct, term = psycopg2.connect(os.environ["DIRECT"]), event["carry"]["pass"]
        guarded.autocommit = direct.autocommit = True
    if event["event"] in ("leading", "alive"):
        guarded.cursor().execute("insert into ledger (note) values ('python')")
        direct.cursor().execute("begin; select ringfence.enter(%s); insert into ledger (note) values ('python'); commit", [term])
