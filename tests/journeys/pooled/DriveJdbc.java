// JDBC at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON.

import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;
import org.postgresql.util.PSQLException;

public class DriveJdbc {
    private static final int CROWD = 8;
    private static final int ROUNDS = 25;
    private static final String SLEEPS =
        "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        List<Connection> many = new ArrayList<>();
        for (int number = 0; number < CROWD; number++) {
            many.add(connect(uri));
        }
        try (Connection one = connect(uri); Connection other = connect(uri)) {
            var driver = DriverManager.getDriver("jdbc:postgresql:");
            List<String> fields = new ArrayList<>();
            fields.add("\"client\": \"pgjdbc " + driver.getMajorVersion() + "." + driver.getMinorVersion() + "\"");
            fields.add("\"is_bound\": " + knowsBinding());
            crowd(many, fields);
            cancel(one, other, fields);
            copy(one, fields);
            stream(one, fields);
            recover(one, fields);
            listen(one, fields);
            temporary(one, fields);
            lock(one, other, fields);
            state(one, "notify news, 'heard'");
            System.out.println("{" + String.join(", ", fields) + "}");
        }
        for (Connection connection : many) {
            connection.close();
        }
    }

    /** Newer drivers have the setting; with it they refuse what they cannot bind. */
    private static boolean knowsBinding() {
        try {
            org.postgresql.PGProperty.valueOf("CHANNEL_BINDING");
            return true;
        } catch (IllegalArgumentException absent) {
            return false;
        }
    }

    private static Connection connect(URI uri) throws SQLException {
        String[] who = uri.getRawUserInfo().split(":", 2);
        Properties properties = new Properties();
        properties.setProperty("user", URLDecoder.decode(who[0], StandardCharsets.UTF_8));
        properties.setProperty("password", URLDecoder.decode(who[1], StandardCharsets.UTF_8));
        properties.setProperty("sslmode", "require");
        if (knowsBinding()) {
            properties.setProperty("channelBinding", "require");
        }
        int port = uri.getPort() < 0 ? 5432 : uri.getPort();
        return DriverManager.getConnection("jdbc:postgresql://" + uri.getHost() + ":" + port + uri.getRawPath(), properties);
    }

    private static String text(Connection connection, String statement) throws SQLException {
        try (Statement asked = connection.createStatement(); ResultSet rows = asked.executeQuery(statement)) {
            rows.next();
            return rows.getString(1);
        }
    }

    private static boolean truth(Connection connection, String statement) throws SQLException {
        return text(connection, statement).equals("t");
    }

    private static String state(Connection connection, String statement) {
        try (Statement asked = connection.createStatement()) {
            asked.execute(statement);
            return "null";
        } catch (SQLException error) {
            return "\"" + error.getSQLState() + "\"";
        }
    }

    /** Each has another statement under the same name, `S_1` from the fifth time on, and settings of its own. */
    private static void crowd(List<Connection> many, List<String> fields) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CROWD);
        List<Future<Integer>> counts = new ArrayList<>();
        for (int each = 0; each < CROWD; each++) {
            int number = each;
            counts.add(threads.submit(() -> work(many.get(number), number)));
        }
        int right = 0;
        for (Future<Integer> count : counts) {
            right += count.get();
        }
        threads.shutdown();
        int kept = 0;
        int words = 0;
        for (int number = 0; number < CROWD; number++) {
            kept += ((1000 + number) + "kB").equals(text(many.get(number), "show work_mem")) ? 1 : 0;
        }
        for (int number = 0; number < CROWD; number++) {
            words += ("word " + number).equals(text(many.get(number), "select current_setting('my.word', true)")) ? 1 : 0;
        }
        fields.add("\"right\": " + right);
        fields.add("\"kept\": " + kept);
        fields.add("\"words\": " + words);
    }

    private static int work(Connection connection, int number) throws SQLException {
        state(connection, "set work_mem = '" + (1000 + number) + "kB'");
        state(connection, "set my.word = 'word " + number + "'");
        int right = 0;
        try (PreparedStatement prepared = connection.prepareStatement("select ?::int * 1000 + " + number)) {
            for (int n = 0; n < ROUNDS; n++) {
                prepared.setInt(1, n);
                try (ResultSet rows = prepared.executeQuery()) {
                    rows.next();
                    right += rows.getInt(1) == n * 1000 + number ? 1 : 0;
                }
            }
            if (!prepared.unwrap(PGStatement.class).isUseServerPrepare()) {
                throw new SQLException("it was not prepared on the server");
            }
        }
        return right;
    }

    private static void cancel(Connection one, Connection other, List<String> fields) throws Exception {
        try (Statement sleep = one.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    while (text(other, SLEEPS).equals("0")) {
                        Thread.onSpinWait();
                    }
                    sleep.cancel();
                } catch (SQLException error) {
                    throw new IllegalStateException(error);
                }
            });
            canceller.start();
            String state = "null";
            try {
                sleep.execute("select pg_sleep(60)");
            } catch (SQLException error) {
                state = "\"" + error.getSQLState() + "\"";
            }
            canceller.join();
            fields.add("\"cancelled\": " + state);
            fields.add("\"after_cancel\": " + text(one, "select 1"));
        }
    }

    private static void copy(Connection one, List<String> fields) throws Exception {
        state(one, "drop table if exists copied");
        state(one, "create table copied (n int, word text)");
        StringBuilder rows = new StringBuilder();
        for (int n = 0; n < 10_000; n++) {
            rows.append(n).append("\tword ").append(n).append('\n');
        }
        var manager = one.unwrap(PGConnection.class).getCopyAPI();
        manager.copyIn("copy copied from stdin", new ByteArrayInputStream(rows.toString().getBytes(StandardCharsets.UTF_8)));
        Counted counted = new Counted();
        manager.copyOut("copy (select * from copied order by n) to stdout", counted);
        fields.add("\"copied\": " + text(one, "select count(*) from copied"));
        fields.add("\"copied_bytes\": " + counted.size);
    }

    private static void stream(Connection one, List<String> fields) throws SQLException {
        one.setAutoCommit(false); // else the driver holds the whole result
        long size = 0;
        try (Statement asked = one.createStatement()) {
            asked.setFetchSize(100);
            try (ResultSet rows = asked.executeQuery("select repeat('x', 10240) from generate_series(1, 10240)")) {
                while (rows.next()) {
                    size += rows.getString(1).length();
                }
            }
        }
        one.commit();
        one.setAutoCommit(true);
        fields.add("\"streamed\": " + size);
    }

    private static void recover(Connection one, List<String> fields) throws SQLException {
        one.setAutoCommit(false);
        fields.add("\"refused\": " + List.of(state(one, "select 1 / 0"), state(one, "select 1")));
        one.rollback();
        fields.add("\"recovered\": " + text(one, "select 7"));
        one.commit();
        one.setAutoCommit(true);
    }

    private static void listen(Connection one, List<String> fields) throws SQLException {
        try (Statement asked = one.createStatement()) {
            asked.execute("listen news");
            fields.add("\"listened\": [null, false]");
        } catch (PSQLException error) {
            var told = error.getServerErrorMessage();
            boolean named = (told.getMessage() + told.getHint()).contains("direct host");
            fields.add("\"listened\": [\"" + error.getSQLState() + "\", " + named + "]");
        }
    }

    private static void temporary(Connection one, List<String> fields) throws SQLException {
        String outside = state(one, "create temp table staying (n int)");
        one.setAutoCommit(false);
        state(one, "create temp table passing (n int)");
        state(one, "insert into passing values (1), (2), (3)");
        String inside = text(one, "select count(*) from passing");
        one.commit();
        one.setAutoCommit(true);
        fields.add("\"temporary\": " + List.of(outside, inside, state(one, "select * from passing")));
    }

    private static void lock(Connection one, Connection other, List<String> fields) throws SQLException {
        String tries = "select pg_try_advisory_xact_lock(1)";
        String ofSession = state(one, "select pg_advisory_lock(1)");
        one.setAutoCommit(false);
        state(one, "select pg_advisory_xact_lock(1)");
        boolean meanwhile = truth(other, tries);
        one.commit();
        one.setAutoCommit(true);
        fields.add("\"locked\": [" + ofSession + ", " + meanwhile + ", " + truth(other, tries) + "]");
    }

    private static final class Counted extends OutputStream {
        private long size;

        @Override
        public void write(int one) {
            size++;
        }

        @Override
        public void write(byte[] some, int from, int count) {
            size += count;
        }
    }
}
