// The steps of a client, by pgx: https://github.com/jackc/pgx. Prints `ok STEP` after each; exits 1 at the first that fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

type step struct {
	name string
	do   func(context.Context, *pgx.Conn) error
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	exitOn("connect", err)
	defer conn.Close(ctx)
	steps := []step{
		{"connect", func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) }},
		{"create", create}, {"insert", insert}, {"prepared", prepared}, {"aggregates", aggregates}, {"types", types},
		{"transactions", transactions}, {"batch", batch}, {"copy", copyRows}, {"cursor", cursor}, {"errors", failures},
	}
	for _, s := range steps {
		exitOn(s.name, s.do(ctx, conn))
		fmt.Println("ok", s.name)
	}
	_, err = conn.Exec(ctx, "drop table client_go")
	exitOn("drop", err)
}

func exitOn(step string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
		os.Exit(1)
	}
}

func same[T comparable](what string, got, expected T) error {
	if got != expected {
		return fmt.Errorf("%s: got %v, expected %v", what, got, expected)
	}
	return nil
}

func create(ctx context.Context, c *pgx.Conn) error {
	for _, sql := range []string{
		"drop table if exists client_go",
		"create table client_go (id int primary key, v int not null, t text, n numeric, at timestamptz, tags text[])",
		"select create_distributed_table('client_go', 'id')",
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func insert(ctx context.Context, c *pgx.Conn) error {
	for i := 1; i <= 40; i++ {
		if _, err := c.Exec(ctx, "insert into client_go (id, v, t) values ($1, $2, $3)", i, i%10, fmt.Sprint("t", i)); err != nil {
			return err
		}
	}
	tag, err := c.Exec(ctx, "insert into client_go (id, v) values (41, 1), (42, 2), (43, 3)")
	if err != nil {
		return err
	}
	return same("command tag", tag.String(), "INSERT 0 3")
}

func prepared(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Prepare(ctx, "by_key", "select t from client_go where id = $1"); err != nil {
		return err
	}
	for i := 1; i <= 40; i++ {
		var t string
		if err := c.QueryRow(ctx, "by_key", i).Scan(&t); err != nil {
			return err
		}
		if err := same("t", t, fmt.Sprint("t", i)); err != nil {
			return err
		}
	}
	if err := c.QueryRow(ctx, "by_key", 4000).Scan(new(string)); !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("a key that is not there: %v", err)
	}
	var t string
	if err := c.QueryRow(ctx, "select t from client_go where id = $1", pgx.QueryExecModeSimpleProtocol, 7).Scan(&t); err != nil {
		return err
	}
	return same("simple protocol", t, "t7")
}

func aggregates(ctx context.Context, c *pgx.Conn) error {
	var count, sum int64
	var average float64
	if err := c.QueryRow(ctx, "select count(*), sum(v), avg(v)::float8 from client_go").Scan(&count, &sum, &average); err != nil {
		return err
	}
	if err := errors.Join(same("count", count, 43), same("sum", sum, 186), same("avg", average > 4.32 && average < 4.33, true)); err != nil {
		return err
	}
	rows, err := c.Query(ctx, "select v, count(*) from client_go where id = any($1) group by v order by v", []int32{1, 2, 11, 12})
	if err != nil {
		return err
	}
	groups, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ V, N int64 }])
	if err != nil {
		return err
	}
	return same("groups", fmt.Sprint(groups), "[{1 2} {2 2}]")
}

func types(ctx context.Context, c *pgx.Conn) error {
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	var number pgtype.Numeric
	if err := number.Scan("12345.678"); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "insert into client_go (id, v, n, at, tags) values (100, 0, $1, $2, $3)", number, at, []string{"a", "b c"})
	if err != nil {
		return err
	}
	var text string
	var gotAt time.Time
	var tags []string
	row := c.QueryRow(ctx, "select n::text, at, tags from client_go where id = 100")
	if err := row.Scan(&text, &gotAt, &tags); err != nil {
		return err
	}
	return errors.Join(same("numeric", text, "12345.678"), same("at", gotAt.Equal(at), true), same("tags", fmt.Sprint(tags), "[a b c]"))
}

func transactions(ctx context.Context, c *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update client_go set v = 50 where id in (1, 2, 3, 4)")
		return err
	})
	if err != nil {
		return err
	}
	stop := errors.New("stop")
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "delete from client_go"); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		return err
	}
	var count, changed int
	if err := c.QueryRow(ctx, "select count(*), count(*) filter (where v = 50) from client_go").Scan(&count, &changed); err != nil {
		return err
	}
	return errors.Join(same("rows", count, 44), same("changed", changed, 4))
}

func batch(ctx context.Context, c *pgx.Conn) error {
	queued := &pgx.Batch{}
	for i := 200; i < 230; i++ {
		queued.Queue("insert into client_go (id, v) values ($1, $2)", i, i)
	}
	sum := 0
	queued.Queue("select sum(v) from client_go where id between 200 and 229").QueryRow(func(row pgx.Row) error { return row.Scan(&sum) })
	if err := c.SendBatch(ctx, queued).Close(); err != nil {
		return err
	}
	return same("sum of the batch", sum, 6435)
}

func copyRows(ctx context.Context, c *pgx.Conn) error {
	source := pgx.CopyFromSlice(1000, func(i int) ([]any, error) { return []any{1000 + i, i, fmt.Sprint("copied ", i)}, nil })
	count, err := c.CopyFrom(ctx, pgx.Identifier{"client_go"}, []string{"id", "v", "t"}, source)
	if err != nil {
		return err
	}
	var t string
	if err := c.QueryRow(ctx, "select t from client_go where id = 1777").Scan(&t); err != nil {
		return err
	}
	return errors.Join(same("copied", count, 1000), same("row", t, "copied 777"))
}

func cursor(ctx context.Context, c *pgx.Conn) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "declare cur cursor for select id from client_go where id >= 1000 order by id"); err != nil {
			return err
		}
		seen := 0
		for {
			rows, err := tx.Query(ctx, "fetch 300 from cur")
			if err != nil {
				return err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				return same("fetched", seen, 1000)
			}
			if err := same("first of a fetch", ids[0], 1000+seen); err != nil {
				return err
			}
			seen += len(ids)
		}
	})
}

func failures(ctx context.Context, c *pgx.Conn) error {
	for sql, code := range map[string]string{
		"insert into client_go (id, v) values (1, 1)":    "23505",
		"insert into client_go (id, v) values (1, null)": "23502",
		"selec 1":                          "42601",
		"select * from nosuch":             "42P01",
		"select 1 / (v - v) from client_go": "22012",
	} {
		_, err := c.Exec(ctx, sql)
		var failure *pgconn.PgError
		if !errors.As(err, &failure) || failure.Code != code {
			return fmt.Errorf("%s: expected %s, got %v", sql, code, err)
		}
		if err := c.Ping(ctx); err != nil {
			return err
		}
	}
	return nil
}
