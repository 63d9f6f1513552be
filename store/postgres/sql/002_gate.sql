-- Version 2: transactions under a token.

-- The gate: the mark as transactions check it, written by raise, adopt and revoke only and never locked, so that a row
-- version whose xmax is 0 is the newest there is: see enter. It is shut by a raise, and opened once everything under
-- older tokens has ended.
create table if not exists ringfence.gate (
    resource text primary key,
    token    bigint not null,
    issuer   text not null,
    server   text not null,
    open     boolean not null
);
insert into ringfence.gate (resource, token, issuer, server, open)
select m.resource, m.token, m.issuer, m.server, false from ringfence.mark m on conflict do nothing;
