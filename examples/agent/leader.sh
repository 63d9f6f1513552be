#!/bin/sh
# A command would be run by `leader run`, which is simpler. This one shows that nothing but curl is needed.
curl -sN --unix-socket "$AGENT_SOCKET" -H 'Content-Type: application/json' -d '{"resource": "orders", "holder": "shell"}' http://agent/v1/terms |
while read -r event; do
    get() { echo "$event" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
    echo "$(get event) $(get cause)"
    case $(get event) in leading) options=$(get PGOPTIONS) term=$(get pass) ;; esac
    case $(get event) in leading | alive)
        PGOPTIONS=$options psql -Xq "$GUARDED" -c "insert into ledger (note) values ('shell')" &&
            psql -Xqt "$DIRECT" -c "begin; select ringfence.enter('$term'); insert into ledger (note) values ('shell'); commit" || exit 1 ;;
    esac
done
