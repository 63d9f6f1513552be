-- Version 8: a mark belongs to a candidate, and not only to a number. A coordinator that was restored
-- gives out numbers again.
--
-- candidate    whose term has raised the mark; empty where that is not known
-- rolled_back  a leader of the mark's issuer was seen below the mark, or at it as another candidate:
--              nobody of that issuer counts any more, until an operator adopts the resource
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.mark'::regclass and attname = 'candidate') then
        alter table ringfence.mark add column candidate text collate "C" not null default '', add column rolled_back boolean not null default false;
        alter table ringfence.gate add column candidate text collate "C" not null default '', add column rolled_back boolean not null default false;
    end if;
end $$;
