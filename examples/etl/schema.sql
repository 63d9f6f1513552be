-- events come in all the time; facts are what is made of them, one for each.

create table events (
    id      bigserial primary key,
    happened timestamptz not null default clock_timestamp(),
    payload jsonb not null
);

create table facts (
    event  bigint not null,
    kind   text not null,
    amount numeric not null
);
