// The steps of a client, by pgjdbc. Prints `ok STEP` after each; an exception ends it with exit code 1.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.OffsetDateTime;
import java.util.*;
import org.postgresql.PGConnection;

public class Steps {
    private final Connection connection;

    private Steps(Connection connection) {
        this.connection = connection;
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            Steps steps = new Steps(connection);
            same("valid", connection.isValid(5), true);
            ok("connect");
            steps.create();
            steps.insert();
            steps.prepared();
            steps.aggregates();
            steps.types();
            steps.transactions();
            steps.batch();
            steps.copy();
            steps.cursor();
            steps.errors();
            steps.run("drop table client_java");
        }
    }

    private static void ok(String step) {
        System.out.println("ok " + step);
    }

    private static void same(String what, Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError(what + ": got " + got + ", expected " + expected);
        }
    }

    private void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private List<Object> row(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                List<Object> found = new ArrayList<>();
                if (rows.next()) {
                    for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                        found.add(rows.getObject(i));
                    }
                }
                return found;
            }
        }
    }

    private void create() throws SQLException {
        run("drop table if exists client_java");
        run("create table client_java (id int primary key, v int not null, t text, n numeric, at timestamptz, tags text[])");
        run("select create_distributed_table('client_java', 'id')");
        ok("create");
    }

    private void insert() throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("insert into client_java (id, v, t) values (?, ?, ?)")) {
            for (int i = 1; i <= 40; i++) {
                statement.setInt(1, i);
                statement.setInt(2, i % 10);
                statement.setString(3, "t" + i);
                same("inserted", statement.executeUpdate(), 1);
            }
        }
        try (Statement statement = connection.createStatement()) {
            same("inserted", statement.executeUpdate("insert into client_java (id, v) values (41, 1), (42, 2), (43, 3)"), 3);
        }
        ok("insert");
    }

    // More than prepareThreshold (5) runs: the driver goes from the unnamed statement to a named one, and to binary results.
    private void prepared() throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("select t, id from client_java where id = ?")) {
            for (int i = 1; i <= 40; i++) {
                statement.setInt(1, i);
                try (ResultSet rows = statement.executeQuery()) {
                    same("found", rows.next(), true);
                    same("t", rows.getString("t"), "t" + i);
                    same("id", rows.getInt("id"), i);
                    same("one row", rows.next(), false);
                }
            }
        }
        ok("prepared");
    }

    private void aggregates() throws SQLException {
        for (int i = 0; i < 8; i++) {
            same("aggregates", row("select count(*), sum(v), max(t) from client_java"), List.of(43L, 186L, "t9"));
        }
        Array keys = connection.createArrayOf("int4", new Object[] {1, 2, 11, 12});
        same("any", row("select count(*) from client_java where id = any (?)", keys), List.of(4L));
        ok("aggregates");
    }

    private void types() throws SQLException {
        OffsetDateTime at = OffsetDateTime.parse("2024-02-29T12:00:00Z");
        Array tags = connection.createArrayOf("text", new Object[] {"a", "b c"});
        try (PreparedStatement statement =
                connection.prepareStatement("insert into client_java (id, v, n, at, tags) values (100, 0, ?, ?, ?) returning id")) {
            statement.setBigDecimal(1, new BigDecimal("12345.678"));
            statement.setObject(2, at);
            statement.setArray(3, tags);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                same("returning", rows.getInt(1), 100);
            }
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("select n, at, tags from client_java where id = 100")) {
            rows.next();
            same("numeric", rows.getBigDecimal(1), new BigDecimal("12345.678"));
            same("at", rows.getObject(2, OffsetDateTime.class).toInstant(), at.toInstant());
            same("tags", Arrays.asList((Object[]) rows.getArray(3).getArray()), List.of("a", "b c"));
        }
        List<String> columns = new ArrayList<>();
        try (ResultSet found = connection.getMetaData().getColumns(null, "public", "client_java", null)) {
            while (found.next()) {
                columns.add(found.getString("COLUMN_NAME"));
            }
        }
        same("columns", columns, List.of("id", "v", "t", "n", "at", "tags"));
        try (ResultSet found = connection.getMetaData().getPrimaryKeys(null, "public", "client_java")) {
            found.next();
            same("primary key", found.getString("COLUMN_NAME"), "id");
        }
        ok("types");
    }

    private void transactions() throws SQLException {
        connection.setAutoCommit(false);
        run("update client_java set v = 50 where id in (1, 2, 3, 4)");
        connection.commit();
        run("delete from client_java");
        Savepoint savepoint = connection.setSavepoint();
        run("insert into client_java (id, v) values (1, 1)");
        connection.rollback(savepoint);
        same("in the transaction", row("select count(*) from client_java"), List.of(0L));
        connection.rollback();
        connection.setAutoCommit(true);
        same("after", row("select count(*), count(*) filter (where v = 50) from client_java"), List.of(44L, 4L));
        ok("transactions");
    }

    private void batch() throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("insert into client_java (id, v) values (?, ?)")) {
            for (int i = 200; i < 400; i++) {
                statement.setInt(1, i);
                statement.setInt(2, i);
                statement.addBatch();
            }
            same("batch", Arrays.stream(statement.executeBatch()).sum(), 200);
        }
        same("sum", row("select sum(v) from client_java where id between 200 and 399"), List.of(59900L));
        ok("batch");
    }

    private void copy() throws Exception {
        StringBuilder rows = new StringBuilder();
        for (int i = 0; i < 1000; i++) {
            rows.append(1000 + i).append('\t').append(i).append("\tcopied ").append(i).append('\n');
        }
        var copy = connection.unwrap(PGConnection.class).getCopyAPI();
        same("copied", copy.copyIn("copy client_java (id, v, t) from stdin", new StringReader(rows.toString())), 1000L);
        StringWriter out = new StringWriter();
        same("copied out", copy.copyOut("copy (select id from client_java where id >= 1000) to stdout", out), 1000L);
        same("lines", out.toString().lines().count(), 1000L);
        ok("copy");
    }

    // With autocommit off and a fetch size the driver reads through a portal with a row limit.
    private void cursor() throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("select id from client_java where id >= ? order by id")) {
            statement.setFetchSize(70);
            statement.setInt(1, 1000);
            int expected = 1000;
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    same("id", rows.getInt(1), expected++);
                }
            }
            same("last", expected, 2000);
        }
        connection.commit();
        connection.setAutoCommit(true);
        ok("cursor");
    }

    private void errors() throws SQLException {
        Map<String, String> expected = Map.of(
                "insert into client_java (id, v) values (1, 1)", "23505",
                "insert into client_java (id, v) values (1, null)", "23502",
                "selec 1", "42601",
                "select * from nosuch", "42P01",
                "select 1 / (v - v) from client_java", "22012");
        for (var entry : expected.entrySet()) {
            try {
                run(entry.getKey());
                throw new AssertionError(entry.getKey() + " did not fail");
            } catch (SQLException error) {
                same(entry.getKey(), error.getSQLState(), entry.getValue());
            }
            same("session goes on", row("select 1"), List.of(1));
        }
        ok("errors");
    }
}
