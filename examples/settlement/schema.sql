-- What the settlement works on. No constraint keeps anything from being booked twice: that is the checkpoint's affair.

create table orders (
    id         bigserial primary key,
    merchant   text not null,
    amount     numeric(12, 2) not null,
    day        date not null,
    settlement text            -- which one it was settled in
);

create table ledger (
    settlement text not null,
    merchant   text not null,
    amount     numeric(12, 2) not null,
    booked_at  timestamptz not null default clock_timestamp()
);

-- Mails that are to be sent. They are written with the ledger, and sent by a step of their own.
create table outbox (
    id         bigserial primary key,
    settlement text not null,
    recipient  text not null,
    body       text not null,
    sent_at    timestamptz
);

-- The role that leader logs in as, and something to settle.
grant select, insert, update on orders, ledger, outbox to app;
grant usage on all sequences in schema public to app;
insert into orders (merchant, amount, day) values
    ('north', 12.50, current_date), ('north', 7.50, current_date), ('south', 100, current_date);
