-- What the guard's role needs, and nothing more. The role is no superuser and owns nothing here.
revoke all on schema ringfence from public;
revoke all on all tables in schema ringfence from public;
revoke all on all sequences in schema ringfence from public;
revoke all on all functions in schema ringfence from public;

grant pg_signal_backend, pg_read_all_stats to {{guard}};
grant usage on schema ringfence to {{guard}};
grant execute on all functions in schema ringfence to {{guard}};
-- Only those who hand out terms know that a claim leads.
revoke execute on function ringfence.begin_term(text, bigint, text, text, text), ringfence.stand(text[], text, interval),
    ringfence.take_term(text, text, bigint), ringfence.bring_term(text, bigint, text, text) from {{guard}};
revoke execute on function ringfence.allow(name, text), ringfence.forbid(name, text), ringfence.authorize(boolean) from {{guard}};

-- What every role may call: whether its own session is admitted, and which session of which server
-- it is.
grant usage on schema ringfence to public;
grant execute on function ringfence.holds(text, bigint) to public;
grant execute on function ringfence.leg(), ringfence.own_start(), ringfence.run() to public;

-- Every role may put a transaction under a token: enter only reads the gate.
grant execute on function ringfence.enter(text, bigint, text, text), ringfence.enter(text) to public;
grant execute on function ringfence.is_open(text, bigint, text, text) to public;
grant execute on function ringfence.attach(bigint, text, bigint, text, text) to public;
