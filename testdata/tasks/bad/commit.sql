select 1;
commit;
