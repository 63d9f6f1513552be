package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// The product cannot run unfenced; this patches a scratch database. "fence off" is measured in that
// database, which checks nothing:
//
//   - publish is the real one, without its checks that the transaction is under the claim.
//   - attach always returns false, so that no session is registered.
//   - enter is called only by take, once in each run, and checks nothing. It fails if a step calls it,
//     so that "off" cannot become "on" unnoticed.
//   - The call of enter that follows BEGIN in one message does not reach the server: see withoutEnter.
const noEnter = `create or replace function
	ringfence.enter(p_resource text, p_token bigint, p_issuer text) returns void
	language plpgsql as $$ begin
		if current_query() ilike 'begin%' then
			raise exception 'the fence was to be off, and a step has called it';
		end if;
	end $$`

// noAttach registers no session.
const noAttach = `create or replace function
	ringfence.attach(p_pid bigint, p_resource text, p_token bigint, p_issuer text) returns boolean
	language sql as $$ select false $$`

// checks are the parts of publish that check the claim, and what is left of each.
var checks = []struct {
	part *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`(?s)if not v_attached and v_under .*?end if;`), ""},
	{regexp.MustCompile(`v_attached and (p_version > 1) and current_setting\([^)]*\) = 'true'`), "$1"},
	{regexp.MustCompile(`(?s)and exists \(select from ringfence\.session .*?\)\);`), ";"},
	{regexp.MustCompile(`(?s)if not ringfence\.registered.*?end if;`), ""},
}

// removeFence removes the fence from the database.
func removeFence(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var publish string
	err = conn.QueryRow(ctx,
		"select pg_get_functiondef(to_regproc('ringfence.publish'))").Scan(&publish)
	if err != nil {
		return fmt.Errorf("read ringfence.publish: %w", err)
	}
	for _, c := range checks {
		if !c.part.MatchString(publish) {
			return fmt.Errorf("ringfence.publish has changed, and no check was found that matches %s: "+
				"adapt the benchmark", c.part)
		}
		publish = c.part.ReplaceAllString(publish, c.left)
	}
	for _, sql := range []string{noEnter, noAttach, publish} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("remove the fence: %w", err)
		}
	}
	return nil
}

// withoutEnter is a connection that sends BEGIN without the check after it, as a program without a
// fence would. The driver writes a simple query as one message in one call.
type withoutEnter struct{ net.Conn }

// check is a simple query that begins a transaction and enters.
var check = regexp.MustCompile(`(?s)^(begin[^;]*?)\s*;\s*\w+ ringfence\.enter\([^;]*\)$`)

func (c withoutEnter) Write(b []byte) (int, error) {
	const header = 5 // type and length
	if len(b) < header || b[0] != 'Q' || int(binary.BigEndian.Uint32(b[1:])) != len(b)-1 {
		return c.Conn.Write(b)
	}
	found := check.FindSubmatch(bytes.TrimSuffix(b[header:], []byte{0}))
	if found == nil {
		return c.Conn.Write(b)
	}
	begin := found[1]
	message := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(begin)+1))
	message = append(append(message, begin...), 0)
	if _, err := c.Conn.Write(message); err != nil {
		return 0, err
	}
	return len(b), nil
}
