#!/bin/sh
# Sends what is in the outbox and not marked as sent. psql finds the database in PGHOST, PGDATABASE and so on.
set -eu

query() { psql -X -A -t -q -v ON_ERROR_STOP=1 -v settlement="$RINGFENCE_TASK" -v id="${id:-0}"; }

unsent=$(query <<'SQL'
select id, recipient, body from outbox where settlement = :'settlement' and sent_at is null order by id;
SQL
)
printf '%s' "$unsent" | while IFS='|' read -r id recipient body || [ -n "$id" ]; do
  "${MAILER:-./mail.sh}" "$RINGFENCE_KEY/$id" "$recipient" "$body" </dev/null
  query <<'SQL'
update outbox set sent_at = clock_timestamp() where id = :'id';
SQL
done
