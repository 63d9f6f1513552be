-- What the role of a program with checkpointed tasks needs.
grant execute on function ringfence.take(text, bigint, text, text, bigint, text) to {{role}};
grant execute on function ringfence.publish(text, bigint, text, text, bigint, json) to {{role}};
grant execute on function ringfence.enter_and_publish(text, bigint, text, text, bigint, json, text) to {{role}};
grant execute on function ringfence.enter_and_forget(text, bigint, text, text, text) to {{role}};
grant execute on function ringfence.checkpoints(text[]) to {{role}};
