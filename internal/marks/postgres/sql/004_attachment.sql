-- Version 4: a session that attaches gets a number, by which publish recognizes it.
--
-- attachment  the number that attach gave to the session; null if only a guard has registered it
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'ringfence.session'::regclass and attname = 'attachment') then
        alter table ringfence.session add column attachment bigint;
        create unique index session_by_attachment on ringfence.session (attachment);
    end if;
end $$;

-- The numbers. Only attach draws one. currval returns the last number that the caller's own backend
-- has drawn, and the sequence gives no number twice, so a session cannot have another one's number.
-- Only the schema's owner has a privilege on the sequence.
create sequence if not exists ringfence.attachment;
