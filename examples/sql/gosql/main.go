// Gosql is fenced by SQL, with database/sql; pgx alone is the same with its own types.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var pass sql.NullString

func transfer(ctx context.Context, db *sql.DB, level sql.IsolationLevel, wait func()) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "select ringfence.enter($1)", pass); err != nil { // fence
		return err
	}
	wait()
	if _, err := tx.ExecContext(ctx, "insert into ledger values ($1)", os.Args[1]); err != nil {
		return err
	}
	return tx.Commit()
}

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "default_query_exec_mode=exec") // PGHOST and so on
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	level := map[string]sql.IsolationLevel{
		"read committed": sql.LevelReadCommitted, "repeatable read": sql.LevelRepeatableRead,
		"serializable": sql.LevelSerializable,
	}[os.Getenv("LEVEL")]

	take := "select case when ready then pass end from ringfence.take('orders', $1, $2)" // fence
	for !pass.Valid {                                                                    // fence
		if err := db.QueryRowContext(ctx, take, os.Args[1], os.Args[2]).Scan(&pass); err != nil { // fence
			log.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // fence
	}
	if err := transfer(ctx, db, level, func() {}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("wrote")
	pause := func() {
		fmt.Println("inside")
		fmt.Scanln()
	}
	for _, wait := range []func(){pause, func() {}} {
		err := transfer(ctx, db, level, wait)
		var pg *pgconn.PgError
		switch {
		case err == nil:
			fmt.Println("STALE")
		case errors.As(err, &pg) && pg.Code == "RF001":
			fmt.Println("refused")
		default:
			fmt.Println("ended")
		}
	}
}
