package inject

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/lab/system"
)

// raiseOthers raises the marks of other resources. In the one order their names come before that of
// the lab's resource, in the other after it. There are so many that Postgres looks for a mark by
// its index.
const raiseOthers = `do $$ declare v_name text; begin
	for v_number in 1..2000 loop
		v_name := 'aa' || v_number;
		perform ringfence.raise(v_name, 1, 'lab', 'lab', '', (ringfence.look(v_name)).basis);
	end loop;
end $$`

// sortAnew changes the order of texts under the index of the marks.
func (r *Injector) sortAnew(ctx context.Context) error {
	l, ok := r.sys.(system.Locale)
	if !ok {
		return errors.New("this injector cannot change the C library under Postgres")
	}
	if err := r.asSuperuser(ctx, raiseOthers); err != nil {
		return err
	}
	return l.SortAnew(ctx)
}
