package checkpoint

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// The product cannot run unfenced; this patches a scratch database. "fence off" is measured in that
// database, which checks nothing:
//
//   - publish is the real one, without its checks that the session is recorded under the claim. It
//     still finds out whether the step has ended its own transaction, which is not the fence.
//   - attach registers nothing, and says that it has.
//   - enter is called only by resume, once in each run, and checks nothing. It fails if a step
//     calls it, so that "off" cannot become "on" unnoticed.
const noEnter = `create or replace function
	ringfence.enter(resource text, token bigint, issuer text, candidate text default '') returns void
	language plpgsql as $$ begin
		if current_query() !~ 'ringfence.resume' then
			raise exception 'the fence was to be off, and a step has called it';
		end if;
	end $$`

const noAttach = `create or replace function
	ringfence.attach(pid bigint, resource text, token bigint, issuer text, candidate text default '') returns boolean
	language sql as $$ select true $$`

// checks are the parts of publish that check the claim, and what is left of each.
var checks = []struct {
	part *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`and current_setting\('ringfence\._numbered', true\) = 'true'`), ""},
	{regexp.MustCompile(`v_number := currval\('ringfence_private\.attachment'\);`), ""},
	{regexp.MustCompile(`(?s)and exists \(select from ringfence_private\.session .*?\)\);`), ";"},
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
