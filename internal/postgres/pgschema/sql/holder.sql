-- What a role needs whose programs get tokens by SQL (docs/sql.md).
grant execute on function ringfence.campaign(text[], text, interval), ringfence.campaign(text, text, interval),
    ringfence.stand(text[], text, interval) to {{role}};
grant execute on function ringfence.take(text, text, bigint), ringfence.take_term(text, text, bigint) to {{role}};
grant execute on function ringfence.bring(text, bigint, text, text), ringfence.bring_term(text, bigint, text, text) to {{role}};
grant execute on function ringfence.leave(text), ringfence.signal(integer[]), ringfence.ended(ringfence.term, integer[]) to {{role}};
grant execute on function ringfence.leave_term(text[]), ringfence.tries(), ringfence.free(text[]), ringfence.held(text[]),
    ringfence.free_or_fail(text[], integer) to {{role}};
