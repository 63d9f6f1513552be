-- What the settlement works on. No constraint keeps a merchant from being booked twice.

create table orders (
    id         bigserial primary key,
    merchant   text not null,
    amount     numeric(12, 2) not null,
    day        date not null,
    settlement text            -- in which it was settled
);
create index on orders (merchant) where settlement is null;

create table ledger (
    settlement text not null,
    merchant   text not null,
    amount     numeric(12, 2) not null,
    booked_at  timestamptz not null default clock_timestamp()
);

-- Stands for a bank, which drops a payment with a key that it has seen.
create table payments (
    key      text primary key,
    merchant text not null,
    amount   numeric(12, 2) not null
);
